"""What a learner is judged by decides what it asks for."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import parbals
from parbals.errors import InputError
from parbals.learner.metric import METRICS, loss_for, metric_of
from parbals.scores.losses import LOSSES

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((150, 3))
NOISY = X @ [2.0, -1.0, 0.5] + GENERATOR.logistic(size=150)


def taught(n_classes=2, **settings):
    active = parbals.ActiveLearner(X, range(n_classes), random_state=0, n_samples=128, **settings)
    active.tell(range(15), np.digitize(NOISY, [0.0, 1.5][: n_classes - 1])[:15].tolist())
    return active


def chosen(**settings):
    return taught(**settings).choose(6).indices.tolist()


def test_every_loss_has_one_metric():
    assert sorted(METRICS.values()) == sorted(LOSSES)
    for metric, loss in METRICS.items():
        assert metric_of(loss) == metric
        assert loss_for(metric, None) == loss_for(None, loss) == loss_for(metric, loss) == loss
    assert loss_for(None, None) == "error"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f1"}, "metric is 'f1'; choose one of: accuracy, log-loss"),
        ({"metric": "accuracy", "loss": "squared"}, "loss is 'squared'; choose one of: error, log"),
        (
            {"metric": "accuracy", "loss": "log"},
            'metric="accuracy" and loss="log" contradict each other; leave loss out',
        ),
    ],
)
def test_what_is_unknown_or_contradicts_itself_is_refused(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        taught(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.full)])
def test_by_default_items_are_chosen_for_accuracy(n_classes):
    active = taught(n_classes)
    assert (active.metric, active.loss) == ("accuracy", "error")
    by_default = chosen(n_classes=n_classes)
    assert by_default == chosen(n_classes=n_classes, loss="error")
    by_log_loss = chosen(n_classes=n_classes, metric="log-loss")
    assert by_log_loss == chosen(n_classes=n_classes, loss="log") != by_default


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_a_model_of_ones_own_is_judged_likewise():
    forest = RandomForestClassifier(30, random_state=0)
    by_default = taught(model=forest).choose(1)
    assert by_default.indices.tolist() == taught(model=forest, loss="error").choose(1).indices
    gains = parbals.epig(*[taught(model=forest).fitted().sample_proba(X)] * 2, loss="error")
    assert by_default.scores[0] == pytest.approx(gains[15:].max(), rel=1e-4)


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_a_report_speaks_of_log_loss_whatever_items_are_chosen_for():
    forest = RandomForestClassifier(30, random_state=0)
    gains = [taught(model=forest, metric=metric).report(3).next_gain for metric in METRICS]
    assert gains[0] == gains[1] > 0
