"""``onnx:FILE`` with the network of the extra ``text``, a real file that others have exported."""

import json
import shutil
from importlib import resources

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.encoders import embed, load_encoder
from parbals_label.encoders.int8_sentences import Int8MiniLM, int8_weights

tokenizers = pytest.importorskip("tokenizers", reason="ONNX files need a tokenizer")
pytest.importorskip("onnxruntime", reason="ONNX files need ONNX Runtime")
NETWORK = int8_weights()
pytestmark = pytest.mark.skipif(NETWORK is None, reason="needs the extra text")
TEXTS = ["The market rose.", "", "Ein schöner Tag", "good " * 400]
FIRST_PIECE = 999
SPECIAL = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102}


def write_tokenizer(path):
    """BERT's tokenizer, from the word pieces that ship with parbals."""
    with resources.files("parbals.features").joinpath("data/word_vectors.npz").open("rb") as file:
        pieces = np.load(file)["pieces"].tobytes().decode().split("\n")
    vocabulary = SPECIAL | {piece: FIRST_PIECE + k for k, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    tokenizer.enable_padding()  # as exporters leave it; rows must not depend on it
    tokenizer.save(str(path))


@pytest.fixture
def folder(tmp_path):
    """A folder as sentence-transformers exports it, with ``onnx/model.onnx``."""
    (tmp_path / "onnx").mkdir()
    shutil.copy(NETWORK, tmp_path / "onnx" / "model.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    modules = [
        {"type": f"sentence_transformers.models.{name}"} for name in ("Pooling", "Normalize")
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    return tmp_path


@pytest.fixture
def name(folder):
    return f"onnx:{folder / 'onnx' / 'model.onnx'}"


def test_rows_are_those_of_the_same_network_read_otherwise(name):
    network = Int8MiniLM(NETWORK)
    expected = network.encode([network.tokens(text) for text in TEXTS])
    encoder = load_encoder(name, kind="text")
    rows = encoder.encode([encoder.prepare(text) for text in TEXTS])
    np.testing.assert_allclose(rows, expected, atol=1e-4)


def test_embedding_texts_by_it(name):
    texts = lambda: ((str(k), text) for k, text in enumerate(TEXTS))  # noqa: E731
    assert embed(load_encoder(name), name, texts, len(TEXTS)).rows.shape == (4, 384)


def test_a_tokenizer_of_another_model_is_refused_in_a_sentence(name, folder):
    words = {"[UNK]": 2_000_000, "good": 2_000_001}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = load_encoder(name)
    with pytest.raises(InputError, match="does the tokenizer belong to the model"):
        encoder.encode([encoder.prepare("good")])


def test_pooling_and_weights_identify_the_model(name, folder):
    models = {load_encoder(name).model}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    models.add(load_encoder(name).model)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    models.add(load_encoder(name).model)
    assert len(models) == 3


def test_what_is_missing_or_damaged_is_one_sentence(name, folder):
    with pytest.raises(InputError, match=r"names no file; write onnx:FILE\.$"):
        load_encoder("onnx:")
    with pytest.raises(InputError, match=r"no file .*missing\.onnx"):
        load_encoder(f"onnx:{folder}/missing.onnx")
    with pytest.raises(InputError, match="reads texts, not images"):
        load_encoder(name, kind="image")
    tokenizer = folder / "tokenizer.json"
    content = tokenizer.read_bytes()
    tokenizer.write_bytes(content[:1000])
    with pytest.raises(InputError, match=r"tokenizer\.json is no tokenizer"):
        load_encoder(name)
    tokenizer.unlink()
    with pytest.raises(InputError, match=r"no tokenizer\.json beside"):
        load_encoder(name)
    tokenizer.write_bytes(content)
    (folder / "onnx" / "model.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match="ONNX Runtime cannot load"):
        load_encoder(name)
