"""What people are told: why an item, how far the goal is, and never to stop without reason."""

import pytest
from parbals.learner.words import Goal, advice, goal_parts, why_words


def report(mean, high, *, gain=0.1, measured=None):
    """A report of an expected error, and of a measured one (mean, high) where there is an audit."""
    error = {"mean": mean, "low": 0.0, "high": high}
    found = None
    if measured is not None:
        found = {"error": {"mean": measured[0], "low": 0.0, "high": measured[1]}}
    return {
        "expected_error": error,
        "expected_log_loss": {"mean": 0.5, "low": 0.4, "high": 0.6},
        "next_gain": gain,
        "batch_size": 10,
        "measured": found,
    }


@pytest.mark.parametrize(
    ("shares", "similar", "sentence"),
    [
        ((0.5, 0.4, 0.1), 143, "The model wavers between a and b; about 140 similar items depend"),
        ((0.1, 0.4, 0.5), None, "The model wavers between b and c."),
        ((0.35, 0.35, 0.3), 3, "The model wavers between a, b and c."),
        ((0.95, 0.03, 0.02), 12_345, "The model is fairly sure of this one; about 12,000 similar"),
        ((0.8, 0.1, 0.1), 8, "The model has a guess but is not sure; about 8 similar items"),
    ],
)
def test_why_this_item(shares, similar, sentence):
    predicted = dict(zip("abc", shares, strict=True))
    assert why_words(predicted, similar).startswith(sentence)


def test_a_model_that_knows_nothing_names_nothing():
    even = dict.fromkeys("abcdef", 1 / 6)
    assert why_words(even) == "The model has no idea yet what this is."
    assert why_words(None) == "The model does not know this item yet."
    assert why_words(even, is_start=True).startswith("One of the items that stand for the others")


@pytest.mark.parametrize(
    ("goal", "n_labelled", "made", "reached"),
    [
        (Goal(), 500, report(0.01, 0.02, gain=0.0), False),
        (Goal(labels=100), 99, report(0.01, 0.02), False),
        (Goal(labels=100), 100, report(0.4, 0.5), True),
        (Goal(error=0.05), 10, None, False),
        (Goal(error=0.05), 10, report(0.04, 0.06), False),
        (Goal(error=0.05), 10, report(0.02, 0.04), True),
        (Goal(error=0.05), 10, report(0.02, 0.04, measured=(0.03, 0.07)), False),
        (Goal(error=0.05), 10, report(0.3, 0.4, measured=(0.02, 0.04)), True),
        (Goal(error=0.05), 10, report(0.02, 0.05), False),
        (Goal(100, 0.05), 100, report(0.3, 0.4), False),
    ],
)
def test_only_a_goal_that_was_set_and_reached_ends_the_work(goal, n_labelled, made, reached):
    is_reached, sentence = advice(goal, n_labelled, made)
    assert is_reached == reached
    assert sentence.startswith("Your goal is reached.") == reached
    assert "stop" not in sentence.replace("when to stop", "")


def test_an_expected_error_is_told_from_a_measured_one():
    goal = Goal(error=0.05)
    assert "Only an audit" in advice(goal, 10, report(0.02, 0.04))[1]
    assert "Only an audit" not in advice(goal, 10, report(0.02, 0.04, measured=(0.02, 0.04)))[1]
    (part,) = goal_parts(goal, 10, report(0.02, 0.04, measured=(0.05, 0.1)))
    assert part.share == 0.5
    assert part.sentence == "an error below 5 %; measured 5 %, at most 10 %"


def test_labels_that_hardly_help_are_said_to_with_the_error_left_open():
    words = advice(Goal(), 500, report(0.46, 0.5, gain=1e-4))[1]
    assert words.startswith("More labels hardly change the model")
