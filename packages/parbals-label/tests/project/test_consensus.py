"""One label from several people's answers; kappa by hand, by scikit-learn and statsmodels."""

import random
from collections import Counter

import numpy as np
import pytest
from parbals_label.answer_form import AnswerForm, names_text
from parbals_label.project.consensus import (
    aggregate_labels,
    agreement,
    cohen_kappa,
    fleiss_kappa,
    tied_positions,
)
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from sklearn.metrics import cohen_kappa_score


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "project", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {}) for n in range(3))
        yield store


def test_the_majority_decides_and_the_earliest_among_equals():
    answers = {
        0: {"kim": "ham"},
        1: {"kim": "ham", "lee": "spam", "sam": "spam"},
        2: {"kim": "spam", "lee": "ham"},
        3: {},
    }
    assert aggregate_labels(answers) == {0: "ham", 1: "spam", 2: "spam"}


def test_a_tie_goes_to_the_earlier_answer_not_to_the_first_name(store):
    store.submit([Submission(0, "spam")], annotator="zoe")
    store.submit([Submission(0, "ham")], annotator="ann")
    assert aggregate_labels(store.votes()) == {0: "spam"}
    store.submit([Submission(0, "ham")], annotator="zoe", revise=True)
    assert aggregate_labels(store.votes()) == {0: "ham"}


def test_people_outvote_machines_and_machines_count_where_nobody_answered(store):
    for machine in ("model-1", "model-2"):
        store.submit(
            [Submission(0, "spam"), Submission(1, "spam")], annotator=machine, source="machine"
        )
    store.submit([Submission(0, "ham")], annotator="ann")
    assert aggregate_labels(store.votes()) == {0: "ham", 1: "spam"}
    assert store.current_labels()[0] == {"model-1": "spam", "model-2": "spam", "ann": "ham"}, (
        "nothing is hidden"
    )
    store.undo_labels([0], annotator="ann")
    assert aggregate_labels(store.votes()) == {0: "spam", 1: "spam"}


# 50 grants, two readers: 20 both yes, 15 both no, 5 yes/no, 10 no/yes. p_o = 0.7, p_e = 0.5 · 0.6 +
# 0.5 · 0.4 = 0.5.
GRANTS = [("yes", "yes")] * 20 + [("no", "no")] * 15 + [("yes", "no")] * 5 + [("no", "yes")] * 10


def votes(*columns):
    """position → {annotator: label} from a list of labels an annotator; None is no label."""
    names = "abcdefgh"
    rows = zip(*columns, strict=True)
    return {
        n: {names[i]: x for i, x in enumerate(row) if x is not None} for n, row in enumerate(rows)
    }


def test_cohens_kappa_worked_by_hand():
    agreed = agreement(votes(*map(list, zip(*GRANTS, strict=True))))
    (pair,) = agreed.pairs
    assert (pair.a, pair.b, pair.n) == ("a", "b", 50)
    assert pair.kappa == pytest.approx(0.4)


def test_fleiss_kappa_worked_by_hand_with_unequal_numbers_of_raters():
    # P_1 = 1 (two of two), P_2 = 1/3 (two of three, one apart); p_x = (1 + 2/3)/2 = 5/6, so P_e =
    # 25/36 + 1/36.
    agreed = agreement({0: {"a": "x", "b": "x"}, 1: {"a": "x", "b": "x", "c": "y"}, 2: {"a": "y"}})
    assert agreed.n_items == 2
    assert agreed.fleiss == pytest.approx((2 / 3 - 26 / 36) / (1 - 26 / 36))


@pytest.mark.parametrize("seed", range(5))
def test_kappas_are_those_of_scikit_learn_and_statsmodels(seed):
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 3, 60)
    raters = [
        np.where(generator.random(60) < 0.7, truth, generator.integers(0, 3, 60)) for _ in range(4)
    ]
    agreed = agreement(votes(*([f"class {label}" for label in labels] for labels in raters)))
    for pair in agreed.pairs:
        a, b = ("abcd".index(pair.a), "abcd".index(pair.b))
        assert pair.kappa == pytest.approx(cohen_kappa_score(raters[a], raters[b]))
    assert len(agreed.pairs) == 6
    counts = np.stack([sum(labels == c for labels in raters) for c in range(3)], axis=1)
    assert agreed.fleiss == pytest.approx(inter_rater.fleiss_kappa(counts))


def test_only_items_both_have_labelled_count_for_a_pair():
    agreed = agreement(votes(["x", "y", "x", None], ["x", "y", None, "y"]))
    assert [(pair.kappa, pair.n) for pair in agreed.pairs] == [(1.0, 2)]


def test_without_a_second_opinion_or_a_second_label_there_is_no_kappa():
    assert agreement({}) is None
    assert agreement({0: {"a": "x"}, 1: {"b": "y"}}) is None
    alike = agreement({0: {"a": "x", "b": "x"}})
    assert (alike.fleiss, alike.pairs[0].kappa) == (None, None)


class TestOtherTasks:
    @staticmethod
    def votes(*labels):
        return {0: {f"p{n}": label for n, label in enumerate(labels)}}

    def test_each_of_many_labels_has_a_majority_of_its_own(self):
        form = AnswerForm("many-labels", ("a", "b", "c"))
        said = ['["a","b"]', '["b","c"]', '["b"]', '["a"]']
        assert aggregate_labels(self.votes(*said), form) == {0: '["a","b"]'}
        assert aggregate_labels(self.votes(*said[::-1][1:]), form) == {0: '["b"]'}
        # Half of them: the first decides.
        assert aggregate_labels(self.votes('["a"]', "[]"), form) == {0: '["a"]'}
        assert aggregate_labels(self.votes("[]", '["a"]'), form) == {0: "[]"}
        assert tied_positions(self.votes("[]", '["a"]'), form) == {0}
        assert tied_positions(self.votes(*said[:3]), form) == set()

    def test_ordered_classes_and_numbers_have_a_median(self):
        stars = AnswerForm("ordinal", ("poor", "fair", "good", "great"))
        assert aggregate_labels(self.votes("great", "poor", "fair"), stars) == {0: "fair"}
        assert aggregate_labels(self.votes("great", "poor"), stars) == {0: "poor"}
        numbers = AnswerForm("regression")
        assert aggregate_labels(self.votes("10", "1", "2.5"), numbers) == {0: "2.5"}
        assert aggregate_labels(self.votes("1", "2"), numbers) == {0: "1.5"}
        assert agreement(self.votes("1", "2"), numbers) is None
        assert tied_positions(self.votes("great", "poor"), stars) == {0}, "two medians"
        assert tied_positions(self.votes("great", "poor", "fair"), stars) == set()
        assert tied_positions(self.votes("1", "2"), numbers) == set()

    def test_agreement_of_many_labels_is_that_of_each_as_a_yes_or_no(self):
        form, chance = AnswerForm("many-labels", ("a", "b", "c")), random.Random(1)
        sets = [
            {who: {c for c in form.classes if chance.random() < 0.5} for who in "xyz"}
            for _ in range(40)
        ]
        votes = {
            p: {who: names_text(names) for who, names in by.items()} for p, by in enumerate(sets)
        }
        found = agreement(votes, form)
        each = {
            c: fleiss_kappa([Counter(c in names for names in by.values()) for by in sets])
            for c in form.classes
        }
        assert found.by_label == pytest.approx(each)
        assert found.fleiss == pytest.approx(sum(each.values()) / 3)
        pairs = [cohen_kappa([(c in by["x"], c in by["y"]) for by in sets]) for c in form.classes]
        (pair,) = [pair for pair in found.pairs if (pair.a, pair.b) == ("x", "y")]
        assert pair.kappa == pytest.approx(sum(pairs) / 3)
        assert pair.n == found.n_items == 40
