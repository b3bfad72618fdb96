"""Class descriptions: predictions before the first label; wrong descriptions are dropped."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError

N = 400
C = 3
D = 12
CLASSES = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((C, D))
    y = generator.integers(0, C, N)
    return centres[y] + 1.7 * generator.standard_normal((N, D)), y, centres


def learner(data, n_labels=0, **arguments):
    X, y, _ = data
    active = parbals.ActiveLearner(X, CLASSES, random_state=0, **arguments)
    active.tell(np.arange(n_labels), [CLASSES[c] for c in y[:n_labels]])
    return active


def described(centres, order=(0, 1, 2)):
    return {"class_descriptions": dict(zip(CLASSES, centres[list(order)], strict=True))}


def accuracy(active, data):
    X, y, _ = data
    predicted = active.predict_proba(X[100:]).argmax(axis=1)
    return float((predicted == y[100:]).mean())


def test_it_predicts_before_the_first_label(data):
    active = learner(data, **described(data[2]))
    assert accuracy(active, data) > 0.6
    assert len(active.ask(5)) == 5
    assert active.report().expected_error.known


def test_few_labels_are_worth_more_with_it(data):
    # The neighbourhoods of these clusters tell nearly as much as their descriptions.
    labels_only = learner(data, 6, pool_structure=False)
    with_descriptions = learner(data, 6, pool_structure=False, **described(data[2]))
    assert accuracy(with_descriptions, data) > accuracy(labels_only, data) + 0.05


def test_wrong_descriptions_are_dropped(data):
    labels_only = learner(data, 40)
    wrongly_described = learner(data, 40, **described(data[2], (1, 2, 0)))
    expected = labels_only.predict_proba(data[0])
    np.testing.assert_allclose(wrongly_described.predict_proba(data[0]), expected)


def test_cross_validated_predictions_are_of_labels_alone(data):
    active = learner(data, 20, **described(data[2]))
    model = active.fitted()
    assert len(model.gaussian.labels) > 20  # descriptions are used
    probs, labels = active.state.cross_validated_predictions(model)
    assert len(probs) == 20
    assert sorted(labels) == sorted(data[1][:20])


def test_sentences_go_through_the_encoder(data):
    rows = dict(zip("abc", data[2], strict=True))
    sentences = {"class_descriptions": dict(zip(CLASSES, "abc", strict=True))}
    by_sentences = learner(data, encoder=lambda texts: [rows[text] for text in texts], **sentences)
    by_rows = learner(data, **described(data[2]))
    expected = by_rows.predict_proba(data[0])
    np.testing.assert_allclose(by_sentences.predict_proba(data[0]), expected)
    with pytest.raises(InputError, match="need encoder="):
        learner(data, **sentences)


def test_some_classes_may_be_described(data):
    active = learner(data, class_descriptions={"red": data[2][0]})
    probs = active.predict_proba(data[2])
    assert probs[0].argmax() == 0


def test_scores_of_another_model_count_as_descriptions(data):
    X, _, centres = data
    distances = np.square(X[:, None] - centres).sum(axis=2)
    active = learner(data, class_scores=-distances)
    assert accuracy(active, data) > 0.6
    with pytest.raises(InputError, match="class_scores has shape"):
        learner(data, class_scores=-distances[:5])
    with pytest.raises(InputError, match="not both"):
        learner(data, class_scores=-distances, **described(centres))


def test_it_is_saved(data, tmp_path):
    active = learner(data, 8, **described(data[2]))
    active.save(tmp_path / "a")
    loaded = parbals.ActiveLearner.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict_proba(data[0]), active.predict_proba(data[0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_descriptions": {"grey": np.zeros(D)}}, "names 'grey'"),
        ({"class_descriptions": {"red": np.zeros(D + 1)}}, "class_descriptions has"),
        ({"class_descriptions": {"red": np.zeros(D)}, "inference": "smc"}, "closed form"),
    ],
)
def test_bad_descriptions_are_refused(data, arguments, message):
    with pytest.raises(InputError, match=message):
        learner(data, **arguments)
