"""Text networks split in two: both halves compute what the whole does."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="splitting a network needs torch")
transformers = pytest.importorskip("transformers", reason="splitting a network needs transformers")

from parbals_label.encoders import Options, lower_layers  # noqa: E402
from parbals_label.encoders.adapt import load_base  # noqa: E402
from parbals_label.encoders.lower_layers import LowerLayers, UpperLayers  # noqa: E402

WORDS = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *"abcdefgh"]
TEXTS = ["a b", "c", "a b c d e f g h", "h g", "e e e e e"]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
SIZES |= {"num_hidden_layers": 4, "max_position_embeddings": 40, "vocab_size": len(WORDS)}


def saved(folder, network):
    network.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    described = {"tokenizer_class": "BertTokenizer", "model_max_length": 32}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return load_base(folder, Options(device="cpu"), "text")


def network_of(name):
    torch.manual_seed(0)
    if name == "bert":
        return transformers.BertModel(transformers.BertConfig(**SIZES))
    if name == "roberta":
        return transformers.RobertaModel(transformers.RobertaConfig(**SIZES, pad_token_id=0))
    if name == "mpnet":
        return transformers.MPNetModel(transformers.MPNetConfig(**SIZES, pad_token_id=0))
    size = {"dim": 16, "n_heads": 2, "hidden_dim": 32, "n_layers": 4, "vocab_size": len(WORDS)}
    return transformers.DistilBertModel(transformers.DistilBertConfig(**size))


@pytest.fixture
def bert(tmp_path):
    return saved(tmp_path / "bert", network_of("bert"))


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet"])
def test_both_halves_compute_what_the_whole_does(name, tmp_path):
    whole = saved(tmp_path / name, network_of(name))
    lower = LowerLayers.of(whole, 0.5)
    assert lower.n_layers == 2
    assert lower.share == 0.5
    lower.prepare(TEXTS[:3])  # the others pass when they are needed
    split = UpperLayers(whole, lower).encode(TEXTS)
    np.testing.assert_allclose(split, whole.encode(TEXTS), atol=1e-5)


def test_the_halves_share_the_weights_of_the_whole(bert):
    lower = LowerLayers.of(bert, 0.5)
    lower.prepare(TEXTS)
    with torch.no_grad():
        bert.network.encoder.layer[3].output.dense.weight.mul_(1.5)
    split = UpperLayers(bert, lower).encode(TEXTS)
    np.testing.assert_allclose(split, bert.encode(TEXTS), atol=1e-5)


def test_a_text_passes_once_and_alone_decides_its_outputs(bert, monkeypatch):
    lower = LowerLayers.of(bert, 0.5)
    lower.prepare(TEXTS)
    monkeypatch.setattr(LowerLayers, "_computed", None)  # no text passes again
    states, mask = lower.outputs(TEXTS[:2])
    assert states.shape == (2, 4, 16)  # [CLS] a b [SEP]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert not states[1, 3].any()


def test_outputs_beyond_the_memory_limit_are_computed_again(bert, monkeypatch):
    monkeypatch.setattr(lower_layers, "_MAX_BYTES", 1)
    monkeypatch.setattr(lower_layers, "_BLOCK", 2)
    lower = LowerLayers.of(bert, 0.5)
    lower.prepare(TEXTS)
    assert len(lower._outputs) == 2
    split = UpperLayers(bert, lower).encode(TEXTS)
    np.testing.assert_allclose(split, bert.encode(TEXTS), atol=1e-5)


def test_a_network_of_another_architecture_is_not_split(tmp_path):
    assert LowerLayers.of(saved(tmp_path / "distil", network_of("distilbert")), 0.5) is None


def test_a_split_that_computes_something_else_is_refused(bert):
    """DeBERTa, for one, treats its first layer differently wherever that is."""
    forward = bert.network.encoder.forward

    def first_layer_twice(states, *rest, **named):
        states = forward(states, *rest, **named).last_hidden_state
        return forward(states, *rest, **named)

    bert.network.encoder.forward = first_layer_twice
    assert LowerLayers.of(bert, 0.5) is None


def test_one_layer_is_none_to_freeze(bert):
    assert LowerLayers.of(bert, 0.2) is None
