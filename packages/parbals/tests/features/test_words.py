"""Words: pieces, and the vectors that come with the package: meaning without a label."""

import numpy as np
from parbals.features.words import WordPieces, WordVectors, word_vectors

PIECES = ["[UNK]", "play", "##ing", "##s", "p", "naive", "!", "東", "don", "'", "t"]
cut = WordPieces(PIECES, unknown=0)


def named(text):
    return [PIECES[number] for number in cut(text)]


def test_the_longest_piece_wins():
    assert named("playing plays") == ["play", "##ing", "play", "##s"]


def test_case_accents_marks_and_ideographs():
    assert named("NAÏVE! Don't 東東") == ["naive", "!", "don", "'", "t", "東", "東"]


def test_a_word_that_cannot_be_cut_is_unknown_as_a_whole():
    assert named("playx p") == ["[UNK]", "p"]
    assert named("p" * 101) == ["[UNK]"]


def test_nothing_but_space_and_control_characters_is_nothing():
    assert cut("\t \x00\u200b\n") == []


def test_texts_without_a_common_word_are_near_if_they_mean_the_same():
    texts = [
        "The striker scored twice in the final",
        "A goalkeeper saved the football match",
        "Shares fell as the bank raised rates",
        "Investors sold their stocks",
    ]
    rows = word_vectors().encode(texts)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    near = rows @ rows.T
    assert min(near[0, 1], near[2, 3]) > near[:2, 2:].max() + 0.1


def test_texts_without_a_known_piece_are_zero():
    rows = word_vectors().encode(["", "\U00013000"])
    np.testing.assert_array_equal(rows, 0)


def test_rare_pieces_count_more():
    vectors = WordVectors(["a", "b"], np.array([[1, 0], [0, 1]], np.int8), np.array([1.0, 3.0]))
    np.testing.assert_allclose(vectors.encode(["a b"])[0], np.array([1, 3]) / np.sqrt(10))
