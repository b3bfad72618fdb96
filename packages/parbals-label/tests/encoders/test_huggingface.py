"""The paper's encoders in small, with random weights, loaded by the code for the real ones."""

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.encoders import BadItem, Options, embed, load_encoder
from parbals_label.encoders.torch_models import model_folder

torch = pytest.importorskip("torch", reason="these encoders need torch")
transformers = pytest.importorskip("transformers", reason="these encoders need transformers")
pytest.importorskip("PIL", reason="images need Pillow")
load_file = pytest.importorskip("safetensors.torch").load_file
CPU = Options(device="cpu")
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "market",
    "planet",
    "rose",
    "fell",
    "a",
    "##s",
    ".",
]
TEXTS = ["the market rose", "a planet", "", "the markets fell. the market fell. " * 20]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """clip-vit-b32, dinov2-vits14 and bert-base-uncased in small, each in a folder of its name."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    small = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    bert = transformers.BertModel(
        transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **small)
    )
    bert.save_pretrained(folder / "bert-base-uncased")
    (folder / "bert-base-uncased" / "vocab.txt").write_text("\n".join(WORDS))
    described = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "bert-base-uncased" / "tokenizer_config.json").write_text(json.dumps(described))
    text = small | {"vocab_size": 60, "max_position_embeddings": 16}
    vision = small | {"image_size": 224, "patch_size": 32}
    clip = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    transformers.CLIPModel(clip).save_pretrained(folder / "clip-vit-b32")
    dino = {key: value for key, value in small.items() if key != "intermediate_size"}
    config = transformers.Dinov2Config(image_size=518, patch_size=14, mlp_ratio=2, **dino)
    transformers.Dinov2Model(config).save_pretrained(folder / "dinov2-vits14")
    return folder


@pytest.fixture
def here(models, monkeypatch):
    monkeypatch.setenv("PARBALS_MODELS", str(models))
    return models


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 40, 50, 3)).astype(np.uint8)


def normalised(encoder, pixels):
    prepared = np.stack([encoder.prepare(image) for image in pixels])
    values = (prepared / 255.0 - encoder.preprocess.mean) / encoder.preprocess.std
    return torch.tensor(values.transpose(0, 3, 1, 2), dtype=torch.float32)


def weights(folder):
    return next(folder.glob("*.safetensors"))


class TestBert:
    def tokens(self, text):
        pieces = {"the": [5], "market": [6], "rose": [8], "a": [10], "planet": [7]}
        return torch.tensor([[2, *(number for word in text.split() for number in pieces[word]), 3]])

    def test_the_row_is_the_last_layer_at_cls(self, here):
        encoder = load_encoder("bert-base-uncased", CPU, "text")
        network = transformers.BertModel.from_pretrained(here / "bert-base-uncased").eval()
        rows = encoder.encode(TEXTS[:2])
        for text, row in zip(TEXTS[:2], rows, strict=True):
            with torch.inference_mode():
                wanted = network(self.tokens(text)).last_hidden_state[0, 0].numpy()
            np.testing.assert_allclose(row, wanted, atol=1e-5)

    def test_the_mean_leaves_out_padding(self, here):
        encoder = load_encoder(f"hf:{here / 'bert-base-uncased'}", CPU, "text")
        network = transformers.BertModel.from_pretrained(here / "bert-base-uncased").eval()
        with torch.inference_mode():
            wanted = network(self.tokens(TEXTS[1])).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(encoder.encode(TEXTS)[1], wanted, atol=1e-5)

    def test_long_texts_are_cut_and_empty_ones_are_fine(self, here):
        rows = load_encoder("bert-base-uncased", CPU).encode(TEXTS)
        assert rows.shape == (4, 16)
        assert np.isfinite(rows).all()

    def test_half_a_surrogate_pair_and_things_that_are_no_text(self, here):
        encoder = load_encoder("bert-base-uncased", CPU)
        assert encoder.encode([encoder.prepare("broken \ud800")]).shape == (1, 16)
        with pytest.raises(BadItem, match="not text but int"):
            encoder.prepare(3)

    def test_half_precision(self, here):
        half = load_encoder("bert-base-uncased", Options("cpu", half=True))
        rows = embed(half, "x", lambda: ((text, text) for text in TEXTS), 4).rows
        assert rows.dtype == np.float16
        wanted = load_encoder("bert-base-uncased", CPU).encode(TEXTS)
        np.testing.assert_allclose(rows.astype(np.float32), wanted, atol=0.02)

    def test_a_folder_of_sentence_transformers_pools_as_it_says(self, here, tmp_path):
        folder = tmp_path / "sentences"
        folder.mkdir()
        for path in (here / "bert-base-uncased").iterdir():
            os.symlink(path, folder / path.name)
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({"pooling_mode_cls_token": True})
        )
        (folder / "modules.json").write_text(
            json.dumps([{"type": "sentence_transformers.models.Normalize"}])
        )
        rows = load_encoder(f"hf:{folder}", CPU).encode(TEXTS)
        cls = load_encoder("bert-base-uncased", CPU).encode(TEXTS)
        np.testing.assert_allclose(
            rows, cls / np.linalg.norm(cls, axis=1, keepdims=True), atol=1e-5
        )


class TestImages:
    def test_clip_gives_projected_image_features(self, here, pixels):
        encoder = load_encoder("clip-vit-b32", CPU, "image")
        rows = encoder.encode([encoder.prepare(image) for image in pixels])
        network = transformers.CLIPModel.from_pretrained(here / "clip-vit-b32").eval()
        with torch.inference_mode():
            pooled = network.vision_model(normalised(encoder, pixels)).pooler_output
            wanted = network.visual_projection(pooled).numpy()
        assert rows.shape == (5, 12)
        np.testing.assert_allclose(rows, wanted, atol=1e-5)

    def test_dinov2_gives_its_class_token(self, here, pixels):
        encoder = load_encoder("dinov2-vits14", CPU, "image")
        assert (encoder.preprocess.resize, encoder.preprocess.crop) == (256, 224)
        rows = encoder.encode([encoder.prepare(image) for image in pixels])
        network = transformers.Dinov2Model.from_pretrained(here / "dinov2-vits14").eval()
        with torch.inference_mode():
            wanted = network(normalised(encoder, pixels)).last_hidden_state[:, 0].numpy()
        assert rows.shape == (5, 16)
        np.testing.assert_allclose(rows, wanted, atol=1e-5)

    def test_a_convolutional_network_by_its_path(self, tmp_path, pixels):
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"
        )
        transformers.ResNetModel(config).save_pretrained(tmp_path / "net")
        described = {"size": {"shortest_edge": 64}, "crop_size": 64, "do_center_crop": True}
        (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(described))
        encoder = load_encoder(f"hf:{tmp_path / 'net'}", CPU, "image")
        assert encoder.prepare(pixels[0]).shape == (64, 64, 3)
        assert encoder.encode([encoder.prepare(pixels[0])]).shape == (1, 12)

    def test_rows_do_not_depend_on_the_batch(self, here, pixels):
        encoder = load_encoder("clip-vit-b32", CPU)
        prepared = [encoder.prepare(image) for image in pixels]
        together, alone = (
            encoder.encode(prepared),
            np.concatenate([encoder.encode([one]) for one in prepared]),
        )
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
class TestGpu:
    """The GPU is used unasked, and gives the rows that the CPU gives."""

    @pytest.mark.parametrize("name", ["bert-base-uncased", "clip-vit-b32", "dinov2-vits14"])
    @pytest.mark.parametrize(("half", "room"), [(False, 1e-4), (True, 0.02)])
    def test_its_rows_are_those_of_the_cpu(self, here, pixels, name, half, room):
        items = TEXTS if name.startswith("bert") else list(pixels)
        rows = {}
        for device in (None, "cpu"):
            encoder = load_encoder(name, Options(device, half=half and device is None))
            rows[device] = encoder.encode([encoder.prepare(item) for item in items]).astype(
                np.float32
            )
            assert encoder._parameter.device.type == (device or "cuda")
        np.testing.assert_allclose(rows[None], rows["cpu"], atol=room)

    def test_too_large_a_batch_says_which_to_take(self, here, pixels):
        encoder = load_encoder("clip-vit-b32", Options("cuda"), "image")
        prepared = [encoder.prepare(pixels[0])] * 1000
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.001)
        try:
            with pytest.raises(
                InputError, match=r"ran out of memory with 1000 items .*--batch-size 500"
            ):
                encoder.encode(prepared)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)


class TestWhatIsLoaded:
    def copy(self, source, target):
        target.mkdir()
        for path in source.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        return target

    def pickled(self, source, target):
        folder = self.copy(source, target)
        torch.save(load_file(weights(folder)), folder / "pytorch_model.bin")
        weights(folder).unlink()
        return folder

    def test_other_weights_or_another_vocabulary_are_another_model(self, here, tmp_path):
        folder = self.copy(here / "bert-base-uncased", tmp_path / "copy")
        known = load_encoder(f"hf:{folder}", CPU).model
        assert load_encoder(f"hf:{folder}", CPU).model == known
        (folder / "vocab.txt").write_text("\n".join(reversed(WORDS)))
        assert load_encoder(f"hf:{folder}", CPU).model != known

    def test_pickled_weights_are_read_as_tensors_only(self, here, tmp_path):
        folder = self.pickled(here / "bert-base-uncased", tmp_path / "old")
        rows = load_encoder(f"hf:{folder}", CPU).encode(TEXTS)
        safe = load_encoder(f"hf:{here / 'bert-base-uncased'}", CPU).encode(TEXTS)
        np.testing.assert_allclose(rows, safe, atol=1e-6)

    def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(self, here, tmp_path):
        folder = self.pickled(here / "bert-base-uncased", tmp_path / "evil")

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "harm"),)

        torch.save(
            {"weight": Evil(), "padding": torch.zeros(100_000)}, folder / "pytorch_model.bin"
        )
        with pytest.raises(InputError, match="transformers cannot load the model in"):
            load_encoder(f"hf:{folder}", CPU)
        assert not (tmp_path / "harm").exists()

    def test_code_in_a_model_folder_is_not_run(self, here, tmp_path):
        folder = self.copy(here / "bert-base-uncased", tmp_path / "code")
        config = json.loads((folder / "config.json").read_text())
        config |= {
            "model_type": "mine",
            "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"},
        }
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "mine.py").write_text(f"import os; os.mkdir({str(tmp_path / 'harm')!r})")
        with pytest.raises(InputError, match="transformers cannot load the model in"):
            load_encoder(f"hf:{folder}", CPU)
        assert not (tmp_path / "harm").exists()

    @pytest.mark.parametrize(
        ("name", "value"),
        [("vocab_size", 10**10), ("num_hidden_layers", 10**8), ("intermediate_size", 10**9)],
    )
    def test_a_configuration_cannot_ask_for_more_than_the_weights(
        self, here, tmp_path, name, value
    ):
        folder = self.copy(here / "bert-base-uncased", tmp_path / "huge")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {name: value}))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match="of a larger network than its weights"):
            load_encoder(f"hf:{folder}", CPU)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 500_000

    def test_weights_that_are_missing_are_not_drawn_at_random(self, here, tmp_path):
        from safetensors.torch import save_file

        folder = self.copy(here / "bert-base-uncased", tmp_path / "lacking")
        some = {
            key: value
            for key, value in load_file(weights(folder)).items()
            if "layer.1.output" not in key
        }
        save_file(some, weights(folder), metadata={"format": "pt"})
        with pytest.raises(InputError, match=r"lack encoder\.layer\.1\.output"):
            load_encoder(f"hf:{folder}", CPU)

    def test_damaged_and_absent_weights_are_named(self, here, tmp_path):
        folder = self.copy(here / "dinov2-vits14", tmp_path / "cut")
        content = weights(folder).read_bytes()
        weights(folder).write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError, match="cannot load the model in"):
            load_encoder(f"hf:{folder}", CPU)
        weights(folder).unlink()
        with pytest.raises(
            InputError, match=r"holds no weights; a file ending in \.safetensors is needed"
        ):
            load_encoder(f"hf:{folder}", CPU)

    def test_a_text_model_without_its_vocabulary(self, here, tmp_path):
        folder = self.copy(here / "bert-base-uncased", tmp_path / "mute")
        (folder / "vocab.txt").unlink()
        with pytest.raises(InputError, match="has no vocabulary"):
            load_encoder(f"hf:{folder}", CPU)

    def test_a_device_that_is_not_there(self, here):
        with pytest.raises(InputError, match="The device 'tpu9' cannot be used"):
            load_encoder("bert-base-uncased", Options(device="tpu9"))


class TestWhereModelsAre:
    """In processes of their own: the hub's client decides at import where its cache is."""

    def load(self, name):
        code = (
            "import sys; from parbals_label.encoders import load_encoder; "
            "print(load_encoder(sys.argv[1]).model)"
        )
        return subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, check=False
        )

    def test_offline_one_sentence_says_what_to_get_and_where_to_put_it(self, tmp_path):
        said = self.load("clip-vit-b32").stderr.strip().splitlines()[-1]
        assert (
            "The model openai/clip-vit-base-patch32 is not on this machine and could not be "
            "downloaded" in said
        )
        place = tmp_path / "models" / "clip-vit-b32"
        assert f"`hf download openai/clip-vit-base-patch32 --local-dir {place}`" in said

    def test_a_model_in_the_hubs_own_cache_needs_no_network(self, models, tmp_path):
        """One that has pickled weights only, so that safetensors are looked for first."""
        place = tmp_path / "hub" / "hub" / "models--someone--small-bert"
        snapshot = place / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True)
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text("0" * 40)
        for path in (models / "bert-base-uncased").iterdir():
            (snapshot / path.name).write_bytes(path.read_bytes())
        torch.save(load_file(weights(snapshot)), snapshot / "pytorch_model.bin")
        weights(snapshot).unlink()
        done = self.load("hf:someone/small-bert")
        assert done.returncode == 0, done.stderr
        assert "Pooling(kind='mean'" in done.stdout

    def test_a_path_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match=r"There is no folder .*nowhere with a model in it"):
            load_encoder(f"hf:{tmp_path / 'nowhere'}")

    def test_the_models_folder_comes_before_the_network(self, here):
        assert model_folder("clip-vit-b32", "openai/clip-vit-base-patch32") == here / "clip-vit-b32"
        assert model_folder("clip-vit-b32") == here / "clip-vit-b32"
