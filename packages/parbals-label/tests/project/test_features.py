"""Features beside the database: what is written is what is read, and damage is noticed."""

from pathlib import Path

import numpy as np
import pytest
from parbals.errors import InputError, ProjectDamagedError
from parbals_label.encoders.base import Options
from parbals_label.project.embedding import Recipe, encode, open_encoder
from parbals_label.project.features import load_features, store_features

TEXTS = ["win a prize", "claim the prize now", "see you at noon", "dinner at noon", ""]


def items(contents):
    return lambda: ((str(i), content) for i, content in enumerate(contents))


def encoded(encoder, contents, columns, base=Path()):
    done = []
    recipe = Recipe(encoder, open_encoder(encoder, Options()), columns, base=base)
    result = encode(recipe, items(contents), len(contents), lambda *at: done.append(at))
    assert done[-1] == ("encoding", len(contents), len(contents))
    return result.features


def test_text_about_the_same_thing_is_close():
    features = encoded("words", [{"text": text} for text in TEXTS], ["text"])
    similarity = features @ features.T
    assert similarity[0, 1] > similarity[0, 2]
    assert similarity[2, 3] > similarity[1, 3]
    assert np.square(features).sum(axis=1).mean() == pytest.approx(9.0, rel=1e-4)


def test_text_without_words_is_refused():
    with pytest.raises(InputError, match="no words"):
        encoded("words", [{"text": "..."}, {"text": ""}], ["text"])


def test_numbers_are_standardised_and_a_bad_one_is_named():
    features = encoded("columns", [{"a": "1", "b": 5}, {"a": "3", "b": 5}], ["a", "b"])
    np.testing.assert_allclose(features, [[-1, 0], [1, 0]])
    with pytest.raises(InputError, match="Item '1', column 'a', is 'x'"):
        encoded("columns", [{"a": "1"}, {"a": "x"}], ["a"])


def test_an_unreadable_image_is_named(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"image of item '0'.*broken\.png"):
        encoded("shapes", [{"image": "broken.png"}], ["image"], tmp_path)


def test_what_is_stored_is_what_is_loaded_memory_mapped(tmp_path):
    X = np.random.default_rng(0).standard_normal((20_000, 3)).astype(np.float32)
    matrix = store_features(tmp_path, X)
    loaded = load_features(tmp_path, matrix, verify=True)
    assert isinstance(loaded, np.memmap)
    np.testing.assert_array_equal(loaded, X)
    assert [path.name for path in tmp_path.iterdir()] == [matrix.file]


def test_numbers_that_are_not_finite_leave_nothing_behind(tmp_path):
    X = np.zeros((10, 2))
    X[7, 1] = np.inf
    with pytest.raises(InputError, match="Feature 1 of item 7 is inf"):
        store_features(tmp_path, X)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_noticed(tmp_path):
    matrix = store_features(tmp_path, np.ones((50, 2)))
    path = tmp_path / matrix.file
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\x00")
    with pytest.raises(ProjectDamagedError, match="not what was written"):
        load_features(tmp_path, matrix, verify=True)
    path.write_bytes(whole[:100])
    with pytest.raises(ProjectDamagedError, match="damaged"):
        load_features(tmp_path, matrix)
    path.unlink()
    with pytest.raises(
        ProjectDamagedError, match=r"is missing; run `parbals embed \S+ --encoder NAME`"
    ):
        load_features(tmp_path, matrix)


@pytest.mark.parametrize(
    ("name", "encoder", "remedy"),
    [
        ("features", "words", r"run `parbals embed \S+ --encoder words`"),
        ("features", "given", "put back a copy"),
        ("predictions", "words", r"run `parbals export \S+ --renew`"),
        ("map", "words", "remove it"),
    ],
)
def test_the_remedy_is_that_of_the_file(tmp_path, name, encoder, remedy):
    matrix = store_features(tmp_path, np.ones((5, 2)), name=name)
    (tmp_path / matrix.file).write_bytes(b"x")
    with pytest.raises(ProjectDamagedError, match=remedy):
        load_features(tmp_path, matrix, encoder=encoder)


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': (\x00" + b" " * 200,
        b"\x93NUMPY\x01\x00\x76\x00" + b"[" * 118,
        b"PK\x03\x04" + bytes(200),
        b"PK\x05\x06" + bytes(18),
        b"",
    ],
)
def test_a_made_up_header_is_damage_and_no_trace(tmp_path, content):
    stored = store_features(tmp_path, np.zeros((3, 2), np.float32))
    (tmp_path / stored.file).write_bytes(content)
    with pytest.raises(ProjectDamagedError, match="is damaged"):
        load_features(tmp_path, stored)
