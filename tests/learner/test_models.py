"""Models of one's own: scikit-learn ensembles, anything with samples, and what is refused."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import parbals
from parbals.errors import InputError
from parbals.learner.models import EnsembleModel, as_sample_model

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((80, 4))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)

ENSEMBLES = {
    "forest": RandomForestClassifier(15, random_state=0),
    "extra trees": ExtraTreesClassifier(15, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(max_depth=3), 15, random_state=0),
    "bagging of feature subsets": BaggingClassifier(LogisticRegression(), 15, max_features=0.5, random_state=0),
    "voting": VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_members_are_samples_and_their_mean_is_the_ensembles_prediction(name):
    model = as_sample_model(ENSEMBLES[name], 3).fit(X, Y)
    probs = model.sample_proba(X)
    assert probs.shape == (80, len(ENSEMBLES[name].estimators_), 3)
    np.testing.assert_allclose(probs.mean(axis=1), ENSEMBLES[name].predict_proba(X), atol=1e-9)


def test_a_class_without_labels_has_probability_zero():
    model = EnsembleModel(RandomForestClassifier(5, random_state=0), 4).fit(X, np.where(Y == 1, 3, 0))
    probs = model.sample_proba(X)
    assert (probs[:, :, [1, 2]] == 0).all()
    np.testing.assert_allclose(probs.sum(axis=2), 1.0)


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")  # a hundred trees wear thin, and say so
@pytest.mark.parametrize("strategy", ["parbals-epig", "badge", "galaxy", "batchbald"])
def test_a_forest_goes_round_the_loop(strategy):
    forest = RandomForestClassifier(100, max_depth=4, random_state=0)
    active = parbals.ActiveLearner(X, [0, 1, 2], strategy=strategy, model=forest, random_state=0)
    for _ in range(3):
        out = active.ask(6)
        active.tell(out, Y[out])
    assert active.predict_proba(X).shape == (80, 3)
    assert 0.0 <= active.report(2).expected_error.mean <= 1.0


def test_before_two_classes_are_known_it_covers_the_pool():
    active = parbals.ActiveLearner(X, [0, 1, 2], model=RandomForestClassifier(5), random_state=0)
    first = active.ask(4)
    expected = parbals.ActiveLearner(X, [0, 1, 2], strategy="coreset", random_state=0).ask(4)
    assert first.tolist() == expected.tolist()
    with pytest.raises(InputError, match="at least two classes"):
        active.predict_proba(X)


def test_what_gives_no_samples_is_refused():
    with pytest.raises(InputError, match="LogisticRegression has no sample_proba"):
        parbals.ActiveLearner(X, [0, 1], model=LogisticRegression())
