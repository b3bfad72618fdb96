"""The examples of models of one's own do what they say, on data a linear model cannot separate."""

import sys
from pathlib import Path

import numpy as np
import parbals
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "own_models"))

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((200, 2))
Y = (np.linalg.norm(X, axis=1) > 1.2).astype(int)  # a ring around the origin

pytestmark = pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")


def accuracy_after(model, rounds=6):
    learner = parbals.ActiveLearner(X, [0, 1], model=model, random_state=0, n_samples=128)
    for _ in range(rounds):
        positions = learner.ask(10)
        learner.tell(positions, Y[positions])
    return np.mean(np.array(learner.predict(X)) == Y)


@pytest.mark.full
def test_a_random_forest():
    from random_forest import label_with_a_forest

    learner = label_with_a_forest(X, lambda positions: Y[positions], [0, 1])
    assert len(learner.labels) == 50
    assert np.mean(np.array(learner.predict(X)) == Y) > 0.85


@pytest.mark.full
def test_a_gaussian_process():
    from gaussian_process import FourierProcess

    assert accuracy_after(FourierProcess(2)) > 0.9


def test_a_dropout_network():
    pytest.importorskip("torch", reason="the PyTorch example needs torch: pip install torch")
    from mc_dropout import DropoutNetwork

    assert accuracy_after(DropoutNetwork(2)) > 0.85
    model = DropoutNetwork(2).fit(X[:50], Y[:50])
    np.testing.assert_array_equal(model.sample_proba(X), model.sample_proba(X))


def test_the_default_model_cannot_do_this():
    assert accuracy_after(None, rounds=3) < 0.85
