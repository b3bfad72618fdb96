"""Word pieces: the longest that fit, from the left; what cannot be cut is one unknown piece."""

from parbals.features.wordpiece import WordPieces

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
