"""Classes that are described: a model before the first label, which wrong words cannot hold."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError

N, C, D = 400, 3, 12
CLASSES = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((C, D))
    y = generator.integers(0, C, N)
    return centres[y] + 1.7 * generator.standard_normal((N, D)), y, centres


def learner(data, n_labels=0, **more):
    X, y, _ = data
    made = parbals.ActiveLearner(X, CLASSES, random_state=0, **more)
    made.tell(np.arange(n_labels), [CLASSES[c] for c in y[:n_labels]])
    return made


def described(centres, order=(0, 1, 2)):
    return {"class_descriptions": dict(zip(CLASSES, centres[list(order)], strict=True))}


def accuracy(made, data):
    return float((made.predict_proba(data[0][100:]).argmax(axis=1) == data[1][100:]).mean())


def test_it_predicts_before_the_first_label(data):
    made = learner(data, **described(data[2]))
    assert accuracy(made, data) > 0.6
    assert len(made.ask(5)) == 5
    assert made.report().expected_error.known


def test_few_labels_are_worth_more_with_it(data):
    alone, told = learner(data, 6), learner(data, 6, **described(data[2]))
    assert accuracy(told, data) > accuracy(alone, data) + 0.05


def test_wrong_descriptions_are_let_go(data):
    alone, told = learner(data, 40), learner(data, 40, **described(data[2], (1, 2, 0)))
    np.testing.assert_allclose(told.predict_proba(data[0]), alone.predict_proba(data[0]))


def test_left_out_predictions_are_of_labels_alone(data):
    made = learner(data, 20, **described(data[2]))
    model = made.fitted()
    assert len(model.gaussian.labels) > 20  # it was told
    probs, numbers = made.state.cross_validated_predictions(model)
    assert len(probs) == 20
    assert sorted(numbers) == sorted(data[1][:20])


def test_sentences_go_through_the_encoder(data):
    rows = dict(zip("abc", data[2], strict=True))
    told = {"class_descriptions": dict(zip(CLASSES, "abc", strict=True))}
    made = learner(data, encoder=lambda texts: [rows[text] for text in texts], **told)
    same = learner(data, **described(data[2]))
    np.testing.assert_allclose(made.predict_proba(data[0]), same.predict_proba(data[0]))
    with pytest.raises(InputError, match="need encoder="):
        learner(data, **told)


def test_some_classes_may_be_described(data):
    made = learner(data, class_descriptions={"red": data[2][0]})
    probs = made.predict_proba(data[2])
    assert probs[0].argmax() == 0


def test_scores_of_another_model_count_likewise(data):
    X, _, centres = data
    distances = np.square(X[:, None] - centres).sum(axis=2)
    made = learner(data, class_scores=-distances)
    assert accuracy(made, data) > 0.6
    with pytest.raises(InputError, match="class_scores has shape"):
        learner(data, class_scores=-distances[:5])
    with pytest.raises(InputError, match="not both"):
        learner(data, class_scores=-distances, **described(centres))


def test_it_is_saved(data, tmp_path):
    made = learner(data, 8, **described(data[2]))
    made.save(tmp_path / "a")
    loaded = parbals.ActiveLearner.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict_proba(data[0]), made.predict_proba(data[0]))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"class_descriptions": {"grey": np.zeros(D)}}, "names 'grey'"),
        ({"class_descriptions": {"red": np.zeros(D + 1)}}, "class_descriptions has"),
        ({"class_descriptions": {"red": np.zeros(D)}, "inference": "smc"}, "closed form"),
    ],
)
def test_what_cannot_be_used_is_refused(data, more, fault):
    with pytest.raises(InputError, match=fault):
        learner(data, **more)
