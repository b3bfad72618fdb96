"""The network with invented weights, against the same sums written out in NumPy."""

import numpy as np
import pytest
from minilm_data import WIDTH, make_model, tensors, write
from parbals.errors import InputError
from parbals_label.encoders.minilm import MiniLM, read_safetensors
from scipy.special import erf, softmax


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
    with pytest.raises(InputError, match=r"does not hold all-MiniLM-L6-v2 \(.*cut short"):
        MiniLM(folder)
    write(path, {"other": np.zeros(3, "<f4")})
    with pytest.raises(InputError, match="does not hold all-MiniLM-L6-v2"):
        MiniLM(folder)
