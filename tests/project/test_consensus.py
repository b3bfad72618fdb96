"""One label from several people's answers."""

from parbals.project.consensus import combined_labels


def test_the_majority_decides_and_the_earliest_among_equals():
    answers = {
        0: {"kim": "ham"},
        1: {"kim": "ham", "lee": "spam", "sam": "spam"},
        2: {"kim": "spam", "lee": "ham"},
        3: {},
    }
    assert combined_labels(answers) == {0: "ham", 1: "spam", 2: "spam"}
