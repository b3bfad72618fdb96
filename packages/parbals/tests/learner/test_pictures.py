"""The progress of a learner: as a figure, as a table in a notebook, and in one line."""

import io
import re
import sys
from html.parser import HTMLParser

import numpy as np
import parbals
import pytest
from parbals.installing import install_command
from parbals.learner.pictures import map_of

GENERATOR = np.random.default_rng(8)
X = GENERATOR.standard_normal((300, 4))
BAD = '<script>alert("x")</script>'
CLASSES = ["no & yes", BAD]
Y = np.array(CLASSES, object)[(X[:, 0] > 0).astype(int)]


@pytest.fixture(scope="module")
def active():
    active = parbals.ActiveLearner(
        X,
        CLASSES,
        ids=[f"<i>{n}" for n in range(300)],
        strategy="margin",
        random_state=3,
        n_samples=64,
        audit=40,
    )
    for _ in range(3):
        out = active.ask(30)
        active.tell(out, Y[[int(name[3:]) for name in out]])
        active.report()
    active.ask(12)
    return active


def test_a_new_learner_has_a_picture_before_any_label():
    active = parbals.ActiveLearner(X[:, :1], ["a", "b"], random_state=0, strategy="random")
    active.ask(3)
    (pool,) = active.plot().axes  # no empty half for errors that nobody has computed
    assert len(pool.collections[-1].get_offsets()) == 3


def test_looking_changes_nothing(active):
    before = active.choose(5).indices.tolist(), len(active.events), len(active.reports)
    active.plot()
    assert (active.choose(5).indices.tolist(), len(active.events), len(active.reports)) == before


def test_the_figure_has_the_curve_and_the_pool(active):
    figure = active.plot()
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["expected", "measured"]
    assert left.lines[0].get_xdata().tolist() == [30, 60, 90]
    assert "300" in left.get_title()
    assert [text.get_text() for text in right.get_legend().get_texts()] == [*CLASSES, "batch"]


def test_after_loading_it_goes_on_as_if_it_had_never_stopped(active, tmp_path):
    active.save(tmp_path / "x.parbals")
    again = parbals.ActiveLearner.load(tmp_path / "x.parbals")
    assert [r.to_dict() for r in again.reports] == [r.to_dict() for r in active.reports]
    old = active.plot().axes
    new = again.plot().axes
    assert len(new[0].lines) == len(old[0].lines) > 0
    for before, now in zip(old[0].lines, new[0].lines, strict=True):
        np.testing.assert_allclose(now.get_xydata(), before.get_xydata())
    assert len(new[1].collections[-1].get_offsets()) == len(active.pending)


def test_a_learner_in_one_line(active):
    assert repr(active).startswith("<ActiveLearner by ")
    assert f"{len(active.labels)} of {active.setup.pool.n_rows} labelled" in repr(active)


class Table(HTMLParser):
    """The text, tags and attributes of HTML whose tags are all closed."""

    def __init__(self, html):
        super().__init__()
        self.text = ""
        self.tags = set()
        self.attributes = []
        self.open_tags = []
        self.feed(html)
        self.close()
        assert not self.open_tags

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open_tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def test_a_notebook_shows_progress_and_the_latest_report(active):
    table = Table(active._repr_html_())
    assert "90 of 300 labelled, 12 pending" in table.text
    assert f"{len(active.state.audited)} of 40 labelled" in table.text
    counts = active.state.class_balance()
    assert f"{CLASSES[0]} {counts[CLASSES[0]]}" in table.text
    assert "Expected error after 90 labels" in table.text
    assert "Measured error after 90 labels" in table.text
    assert active.reports[-1].advice in table.text
    assert len(active._repr_html_()) < 2_000


def test_nothing_in_the_notebook_runs_or_is_fetched(active):
    table = Table(active._repr_html_())
    assert BAD in table.text  # shown, not run
    assert table.tags == {"div", "b", "table", "tr", "th", "td"}
    assert table.attributes == []


def test_a_notebook_shows_a_learner_without_fitting_a_model(monkeypatch):
    active = parbals.ActiveLearner(X, CLASSES, random_state=0)
    active.tell([0, 0, 1], [CLASSES[0], CLASSES[0], CLASSES[1]], annotator="ada")
    active.tell([0, 1], [CLASSES[0], CLASSES[0]], annotator="bob")
    monkeypatch.setattr("parbals.learner.setup.Setup.fit", None)
    assert "Call report() to estimate it." in Table(active._repr_html_()).text
    assert "2 of 300 labelled" in repr(active)


def test_a_notebook_shows_the_rmse_of_numbers():
    active = parbals.ActiveLearner(X, task="regression", random_state=0)
    active.tell(np.arange(20), X[:20, 0])
    active.report()
    assert "Expected RMSE after 20 labels" in Table(active._repr_html_()).text


def test_a_notebook_shows_the_first_of_many_classes():
    active = parbals.ActiveLearner(X, range(12), random_state=0)
    assert "9 0, … (2 more classes)" in Table(active._repr_html_()).text


def test_without_matplotlib_the_message_says_what_to_install(active, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        parbals.errors.MissingDependencyError, match=re.escape(install_command("parbals[plot]"))
    ):
        active.plot()


def test_dollars_in_a_class_are_no_formula():
    active = parbals.ActiveLearner(X, ["$\\frac$", "a"], random_state=0, strategy="random")
    active.tell(active.ask(3), ["$\\frac$", "a", "a"])
    active.plot().savefig(io.BytesIO())


@pytest.mark.parametrize(
    ("task", "classes", "labels"),
    [
        ("many-labels", ["a", "b", "c"], [["a", "b"], [], ["c"]]),
        ("regression", None, [2.0, 0.5, 1]),
    ],
)
def test_labels_that_are_no_classes_have_one_colour(task, classes, labels):
    X = np.random.default_rng(0).standard_normal((20, 3))
    active = parbals.ActiveLearner(X, classes, task=task, random_state=0)
    active.tell([0, 1, 2], labels)
    assert map_of(active.state, None)[1].tolist() == [0, 0, 0, *[-1] * 17]
    assert active.plot().axes[-1].get_legend_handles_labels()[1] == ["labelled", "batch"]


def test_the_map_keeps_still_while_labels_come(active):
    places = map_of(active.state, active.last_batch)[0]
    again = parbals.ActiveLearner(X, CLASSES, random_state=3)
    np.testing.assert_allclose(map_of(again.state, None)[0], places)


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [False, True], ["a", 1]])
def test_predict_returns_an_array_of_labels(classes):
    active = parbals.ActiveLearner(X, classes, random_state=0, n_samples=64)
    active.tell([0, 1], classes)
    predicted = active.predict(X[:7])
    assert isinstance(predicted, np.ndarray)
    assert predicted.shape == (7,)
    assert set(predicted.tolist()) <= set(classes)
