"""One look at a fresh sample: exact limits for a finite population, whatever the model is."""

import math

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.errors import InputError
from parbals.learner.evaluation.certify import hypergeometric_limits, sample_delta
from parbals.wording import percent_above
from scipy.stats import hypergeom

GENERATOR = np.random.default_rng(5)
X = GENERATOR.standard_normal((300, 4))
Y = np.where(X[:, 0] + 0.5 * GENERATOR.standard_normal(300) > 0, "yes", "no")


def test_no_mistake_among_a_hundred_is_below_three_percent():
    assert hypergeometric_limits(0, 100, 10**6)[1] == pytest.approx(1 - 0.05**0.01, abs=1e-5)
    assert hypergeometric_limits(0, 100, 10**6)[1] < 0.03
    assert hypergeometric_limits(0, 100, 200)[1] <= 0.02, "half of the population was seen"
    assert hypergeometric_limits(3, 40, 40) == (3 / 40, 3 / 40)
    assert hypergeometric_limits(40, 40, 100)[1] == 1.0


@pytest.mark.parametrize("n_population", [12, 30])
def test_the_limits_are_those_of_the_definition(n_population):
    n = 8
    candidates = np.arange(n_population + 1)
    for k in range(n + 1):
        high = max(m for m in candidates if hypergeom.cdf(k, n_population, m, n) > 0.05)
        low = min(m for m in candidates if hypergeom.sf(k - 1, n_population, m, n) > 0.05)
        assert hypergeometric_limits(k, n, n_population) == (
            low / n_population,
            high / n_population,
        )


@pytest.mark.parametrize("n_wrong", [0, 3, 40, 120])
def test_each_end_holds_in_95_percent_of_all_draws(n_wrong):
    """Exactly: summed over all results of a sample of 60 of 400."""
    counts = np.arange(61)
    probability = hypergeom.pmf(counts, 400, n_wrong, 60)
    ends = np.array([hypergeometric_limits(k, 60, 400) for k in range(61)])
    assert probability[ends[:, 1] < n_wrong / 400 - 1e-12].sum() <= 0.05
    assert probability[ends[:, 0] > n_wrong / 400 + 1e-12].sum() <= 0.05


def make_labelled():
    active = parbals.ActiveLearner(
        X, ["no", "yes"], strategy="confidence", random_state=0, n_samples=64
    )
    batch = active.ask(30)
    active.tell(batch, Y[batch])
    return active


def test_a_learner_certifies_what_it_decides_now():
    active = make_labelled()
    before = active.predict(X)
    sample = active.certify(50)
    assert (sample.n_population, sample.n_labels, len(set(sample.items))) == (270, 30, 50)
    assert not set(sample.positions) & set(active.labelled)
    assert set(active.pending) == set(sample.items)
    assert active.certified(sample) is None
    active.tell(sample.items[:49], Y[sample.positions[:49]])
    assert active.certified(sample) is None
    active.tell(sample.items[49:], Y[sample.positions[49:]])
    certificate = active.certified(sample)
    wrong = int((before[sample.positions] != Y[sample.positions]).sum())
    assert (certificate.n, certificate.n_wrong) == (50, wrong)
    limit = percent_above(certificate.error.high)
    assert f"With 95 % confidence the error is at most {limit}: of 50" in str(certificate)
    population = "among the 270 that had no label at the draw the model trained on 30 labels got"
    assert population in str(certificate)
    again = active.certify(50)
    assert again.positions != sample.positions
    assert (sample.number, again.number) == (1, 2)
    with pytest.raises(InputError, match="A sample of 230 items was requested, but only 220"):
        active.certify(230)


def test_pending_items_are_in_the_population():
    """A strategy asks for the hard items, so the error without them would look smaller."""
    active = make_labelled()
    hard = active.ask(150)
    sample = active.certify(60)
    assert sample.n_population == 270
    assert set(sample.positions) & set(hard)
    assert set(active.pending) == {*hard, *sample.items}


def test_the_limit_itself_is_not_excluded_so_the_words_are_at_most():
    """Of 100 items 5 are wrong: with 60 labels "below 5 %" is false more often than it may be."""
    ends = [hypergeometric_limits(k, 60, 100, sample_delta(1))[1] for k in range(6)]
    probs = hypergeom.pmf(np.arange(6), 100, 5, 60)
    is_equal = np.isclose(ends, 0.05)
    is_less = (np.array(ends) < 0.05) & ~is_equal
    assert probs[is_less].sum() <= sample_delta(1)
    assert probs[is_less | is_equal].sum() > sample_delta(1)


@pytest.mark.parametrize("n_wrong", [0, 1, 7])
def test_a_printed_limit_is_rounded_up(n_wrong):
    high = hypergeometric_limits(n_wrong, 60, 1_440, sample_delta(1))[1]
    printed = float(percent_above(high).removesuffix(" %")) / 100
    assert high <= printed < high + 0.001


class TestWhoseLabelsCount:
    """Where people are divided nobody else decides, and a program's answer is no truth."""

    @pytest.fixture
    def sample(self):
        active = make_labelled()
        return active, active.certify(20)

    def opposite(self, active, sample):
        decided = [active.classes[label] for label in sample.decided]
        return decided, [("no", "yes")[label == "no"] for label in decided]

    def test_programs_alone_measure_nothing(self, sample):
        active, sample = sample
        decided, _ = self.opposite(active, sample)
        active.tell(sample.items, decided, annotator="machine:llm")
        assert active.certified(sample) is None

    def test_a_program_beside_people_changes_nothing(self, sample):
        active, sample = sample
        decided, others = self.opposite(active, sample)
        active.tell(sample.items, decided, annotator="machine:llm")
        active.tell(sample.items, decided, annotator="machine:llm2")
        active.tell(sample.items, others, annotator="ada")
        assert active.certified(sample).n_wrong == 20

    def test_where_two_people_differ_the_limits_hold_for_either(self, sample):
        active, sample = sample
        decided, others = self.opposite(active, sample)
        active.tell(sample.items, decided, annotator="ada")
        active.tell(sample.items[:4], others[:4], annotator="bob")
        certificate = active.certified(sample)
        assert (certificate.n_wrong, certificate.n_unknown) == (0, 4)
        limits = [hypergeometric_limits(k, 20, 270, sample_delta(1)) for k in (0, 4)]
        assert (certificate.error.low, certificate.error.high) == (limits[0][0], limits[1][1])
        assert "of the 16 known labels of 20 random items" in str(certificate)
        active.tell(sample.items[:4], decided[:4], annotator="carol")
        assert active.certified(sample).n_unknown == 0, "a majority"

    def test_a_gold_label_ends_a_tie(self, sample):
        active, sample = sample
        decided, others = self.opposite(active, sample)
        active.tell(sample.items, decided, annotator="ada")
        active.tell(sample.items, others, annotator="bob")
        assert "The error is not known: none of 20 random items" in str(active.certified(sample))
        active.tell(sample.items, others)
        assert active.certified(sample).n_wrong == 20


@pytest.mark.parametrize("n_runs", [30, pytest.param(full_count(500), marks=pytest.mark.slow)])
def test_it_holds_where_a_strategy_left_the_easy_items(n_runs):
    n_covered = 0
    for seed in range(n_runs):
        active = parbals.ActiveLearner(X, ["no", "yes"], strategy="random", random_state=seed)
        active.tell(np.arange(20), Y[:20])
        if seed == 0:
            wrong = active.predict(X[20:]) != Y[20:]
        sample = active.certify(40)
        active.tell(sample.items, Y[sample.positions])
        n_covered += active.certified(sample).error.high >= wrong.mean()
    assert n_covered / n_runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / n_runs)


def test_the_number_of_samples_survives_saving(tmp_path):
    active = make_labelled()
    active.certify(10)
    active.save(tmp_path / "a.parbals")
    assert parbals.ActiveLearner.load(tmp_path / "a.parbals").certify(10).number == 2


def test_the_shares_of_all_samples_add_up_to_five_percent():
    shares = [sample_delta(number) for number in range(1, 20_001)]
    # The shares after the last one are 0.0125 · 6/π² · Σ 1/k², at most 0.0076 / 20,000.
    assert sum(shares) == pytest.approx(0.05, abs=1e-6)
    assert sum(shares) < 0.05
    assert shares == sorted(shares, reverse=True)


def any_limit_fails(rng, n_wrong, deltas, n_runs, n=30, n_population=500):
    """How often one of several upper limits fails, and the same for lower limits.

    The samples are drawn one after the other of what the earlier ones left, of the same decisions.
    """
    limits = {}
    n_failed_above = 0
    n_failed_below = 0
    for _ in range(n_runs):
        n_left = n_population
        n_wrong_left = n_wrong
        fails_above = False
        fails_below = False
        for delta in deltas:
            count = int(rng.hypergeometric(n_wrong_left, n_left - n_wrong_left, n))
            key = (count, n_left, delta)
            if key not in limits:
                limits[key] = hypergeometric_limits(count, n, n_left, delta)
            low, high = limits[key]
            fails_above |= high < n_wrong_left / n_left - 1e-12
            fails_below |= low > n_wrong_left / n_left + 1e-12
            n_left -= n
            n_wrong_left -= count
        n_failed_above += fails_above
        n_failed_below += fails_below
    return n_failed_above / n_runs, n_failed_below / n_runs


@pytest.mark.parametrize("n_wrong", [10, 60, 200])
def test_the_best_of_eight_samples_is_still_true(n_wrong):
    n_runs = 2_000
    rng = np.random.default_rng(n_wrong)
    shared = [sample_delta(number) for number in range(1, 9)]
    monte_carlo_error = math.sqrt(0.05 * 0.95 / n_runs)
    for rate in any_limit_fails(rng, n_wrong, shared, n_runs):
        assert rate <= 0.05 + 2 * monte_carlo_error


def test_without_sharing_the_best_of_eight_samples_would_be_false():
    n_runs = 2_000
    rng = np.random.default_rng(0)
    rate, _ = any_limit_fails(rng, 60, [0.05] * 8, n_runs)
    assert rate > 0.1
