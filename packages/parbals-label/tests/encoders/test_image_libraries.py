"""timm and open_clip: their configuration is read; their models run where they can be imported."""

import importlib
import json

import numpy as np
import pytest
from parbals.errors import InputError, MissingDependencyError
from parbals_label.encoders import Options, load_encoder
from parbals_label.encoders.image_libraries import open_clip_preprocess, timm_preprocess
from parbals_label.encoders.images import CLIP, IMAGENET, Preprocess

CPU = Options(device="cpu")


def library(name):
    """The library, or a skip that says why; both need a torchvision that fits torch."""
    try:
        return importlib.import_module(name)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # the latter where torchvision was built for another torch
        pytest.skip(f"{name} cannot be imported here ({error})")


@pytest.fixture
def pixels():
    pytest.importorskip("PIL", reason="images need Pillow")
    return np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)


class TestConfiguration:
    def test_timm(self):
        config = {
            "input_size": [3, 160, 160],
            "crop_pct": 0.95,
            "mean": [0.5] * 3,
            "std": [0.2] * 3,
        }
        wanted = Preprocess(168, 160, (0.5,) * 3, (0.2,) * 3, 2)
        assert timm_preprocess(config | {"interpolation": "bilinear"}) == wanted
        assert timm_preprocess({}) == IMAGENET

    def test_open_clip(self):
        config = {
            "model_cfg": {"vision_cfg": {"image_size": 336}},
            "preprocess_cfg": {"mean": [0.5] * 3},
        }
        assert open_clip_preprocess(config) == Preprocess(336, 336, (0.5,) * 3, CLIP.std)
        assert open_clip_preprocess({}) == CLIP
        assert open_clip_preprocess({"preprocess_cfg": {"resize_mode": "squash"}}).square


@pytest.mark.parametrize(("name", "module"), [("timm:x", "timm"), ("open_clip:a/b", "open_clip")])
def test_without_torchvision_both_packages_are_asked_for(name, module):
    pytest.importorskip("torch", reason="these encoders need torch")
    if (
        importlib.util.find_spec(module) is None
        or importlib.util.find_spec("torchvision") is not None
    ):
        pytest.skip(f"only where {module} is installed without torchvision")
    with pytest.raises(
        MissingDependencyError, match=r"torchvision.*: pip install 'parbals\[image-encoders\]'"
    ):
        load_encoder(name)


class TestTimm:
    @pytest.fixture
    def folder(self, tmp_path):
        timm = library("timm")
        from safetensors.torch import save_file

        network = timm.create_model("resnet10t", pretrained=False, num_classes=3)
        save_file(network.state_dict(), tmp_path / "model.safetensors")
        config = {
            "architecture": "resnet10t",
            "num_classes": 3,
            "pretrained_cfg": {"input_size": [3, 64, 64]},
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    def test_a_model_gives_what_its_classifier_sees(self, folder, pixels):
        encoder = load_encoder(f"timm:{folder}", CPU, "image")
        assert encoder.prepare(pixels).shape == (64, 64, 3)
        assert encoder.encode([encoder.prepare(pixels)] * 2).shape == (2, 512)

    def test_a_configuration_without_a_model(self, folder):
        (folder / "config.json").write_text(json.dumps({"architecture": "no such network"}))
        with pytest.raises(InputError, match="timm cannot make the model"):
            load_encoder(f"timm:{folder}", CPU)


class TestOpenClip:
    def test_a_model_gives_projected_image_features(self, tmp_path, pixels):
        open_clip = library("open_clip")
        from safetensors.torch import save_file

        vision = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16}
        text = {"context_length": 8, "vocab_size": 40, "width": 16, "heads": 2, "layers": 1}
        config = {
            "model_cfg": {"embed_dim": 12, "vision_cfg": vision, "text_cfg": text},
            "preprocess_cfg": {},
        }
        network = open_clip.CLIP(**config["model_cfg"])
        save_file(network.state_dict(), tmp_path / "open_clip_model.safetensors")
        (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
        encoder = load_encoder(f"open_clip:{tmp_path}", CPU, "image")
        assert encoder.encode([encoder.prepare(pixels)] * 2).shape == (2, 12)
