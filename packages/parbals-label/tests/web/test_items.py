"""What the page is told of a project: why an item was chosen, and the curve."""

from dataclasses import asdict

import numpy as np
import pytest
from page_server import page
from parbals.learner.evaluation.report import Estimate, Report
from parbals.strategies.table import STRATEGIES
from parbals_label.project.features import store_features
from parbals_label.store.records import Lease, Why
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.items import Predictions, Tasks, show_item
from parbals_label.web.progress import Curve, live, own_progress
from parbals_label.web.schemas import QueueOut, ServerOut


@pytest.fixture
def store(project):
    with Store.open(project) as store:
        yield store


def explain(store, why):
    return Tasks(store).tasks(store, [Lease(3, 0.0, why)])[0].why


def predict(store, *shares):
    guesses = np.tile(np.array(shares, np.float32), (store.n_items, 1))
    written = store_features(store.folder, guesses, name="predictions")
    store.update_settings(predictions=PredictionsFile(**asdict(written)))


@pytest.mark.parametrize(
    ("strategy", "score", "words"),
    [
        ("random", 0.3, ": drawn at random."),
        ("coreset", 0.3, " far from all items chosen before."),
        ("margin", 0.25, " nearly equally likely, with a score of 0.25."),
        ("parbals-epig", 0.25, " reduction of the loss: 0.25 (0.5 if labelled alone)."),
        ("parbals-epig", 0.4999, " Expected reduction of the loss: 0.5."),
        ("parbals-epig", None, " do not repeat each other."),
        ("somebody-elses", 0.25, ", chosen by somebody-elses."),
    ],
)
def test_details_name_strategy_and_score(store, strategy, score, words):
    why = Why(batch=7, rank=1, size=20, score=score, initial_score=0.5, strategy=strategy)
    details = explain(store, why).details
    assert details.startswith("Item 2 of 20 in batch 7, ")
    assert details.endswith(words)


def test_people_are_told_in_plain_words_why_an_item_was_chosen(store):
    why = Why(7, 1, 20, 0.25, 0.5, "parbals-epig")
    predict(store, 0.55, 0.45)
    sentence = explain(store, why).sentence
    assert sentence == "The model is undecided between ham and spam."
    start = explain(store, Why(1, 0, 20, None, None, "k-means")).sentence
    assert start == "A representative item, to get started."


def test_every_strategy_has_its_words_and_an_item_nobody_chose_says_so(store):
    for name, strategy in STRATEGIES.items():
        assert strategy.about in explain(store, Why(1, 0, 5, None, None, name)).details
    assert explain(store, None).sentence.startswith("This item was not chosen by a strategy")


def test_a_random_item_says_what_it_is_for_and_shows_no_guess(store):
    guesses = np.full((store.n_items, len(store.classes)), 0.5, np.float32)
    written = store_features(store.folder, guesses, name="predictions")
    store.update_settings(audit=[3], predictions=PredictionsFile(**asdict(written)))
    tasks = Tasks(store)
    leases = [Lease(3, 0.0, Why(7, 1, 20, None, None, "parbals-epig")), Lease(4, 0.0, None)]
    why, other_why = [task.why for task in tasks.tasks(store, leases)]
    assert (why.strategy, why.predicted) == ("audit", None)
    assert why.sentence.startswith("Test item: chosen at random")
    assert show_item(store, 3).predicted is None
    assert show_item(store, 4).predicted is not None
    assert Predictions(store).classes_of([2, 3, 4]) == [0, -1, 0]
    assert other_why.strategy is None


def test_the_curve_has_one_point_for_each_number_of_labels_and_keeps_both_ends(store):
    for n_labels in range(1, 251):
        for mean in (0.9, 1 / n_labels):
            error = {"mean": mean, "low": 0.0, "high": 1.0}
            # Labels of a sample that is held back are stored, and the model has not learnt them.
            body = {"expected_error": error, "n_labelled": n_labels}
            store.save_report(body, n_labels + 60 * (n_labels > 200))
    store.save_report({"expected_error": None}, 251)
    curve = Curve()
    points = curve.update(store)
    assert (len(points), points[0].n_labels, points[-1].n_labels) == (200, 1, 250)
    assert points[-1].mean == 1 / 250
    assert curve.update(store) == points


def test_people_are_told_what_the_model_is_judged_by(store):
    def judged():
        queue = QueueOut.model_construct()
        server = ServerOut.model_construct()
        progress = live(store, Curve(), queue, server)
        assert own_progress(progress, "ann").judged is None, "it is for owners"
        return progress.judged

    store.update_settings(loss="error")
    assert judged() == []  # accuracy, which the error says already
    store.update_settings(loss="log")
    assert judged() == ["Metric: log loss. It scores the probabilities, not the decisions."]
    store.update_settings(loss="f1:spam")
    assert judged() == ["Metric: F1 of spam. The predicted class may not be the most probable one."]
    report = Report(
        *(60, 9, 0, 60, {}, Estimate(0.1, 0.0, 0.2), Estimate(0.3, 0.2, 0.4), 10, 0.1),
        metric="f1:spam",
        expected_metric=Estimate(0.8, 0.613, 0.9),
        decide_from={"spam": 0.4},
    )
    store.save_report(report.to_dict(), 9)
    assert judged() == [
        "Expected F1 of spam: 80 % (90 % interval 61.3 % to 90 %); spam is predicted from a "
        "probability of 0.40."
    ]


def test_a_worker_that_has_failed_is_shown_and_labelling_goes_on(project):
    with page(project) as server:
        server.session.supervisor._set_state("failed", "It has ended.")
        assert server.label("ann", 0).status == 200
        queue = server.get("/api/live").json["queue"]
    assert (queue["state"], queue["message"]) == ("failed", "It has ended.")
