"""CSV, a program labels half of it, a person checks its labels one by one, export: nobody loses."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from page_server import serving, wait_for
from parbals_label.project.stored_predictions import newer_answers
from parbals_label.store.store import Store

N_ITEMS = 240
N_LABELS = 120
CLASSES = ("billing", "delivery", "login")
N_WORDS = 10
"""Words of each class; as many stand in questions of any class."""
PROGRAM = """
import json, sys
labels = json.load(open(sys.argv[1]))
for line in sys.stdin:
    id_ = json.loads(line)["id"]
    print(json.dumps({"id": id_, "label": labels[id_]}), flush=True)
"""


def write_questions(path, seed):
    """Made-up questions, with words of their class, of any class and of none; id → class."""
    generator = np.random.default_rng(seed)
    truth = {}
    rows = []
    for number in range(N_ITEMS):
        id_ = f"q{number:03d}"
        truth[id_] = str(generator.choice(CLASSES))
        sources = [truth[id_], generator.choice(CLASSES), "filler"]
        n_words = generator.integers(4, 9)
        chosen = generator.choice(sources, size=n_words, p=[0.5, 0.3, 0.2])
        words = [f"{source}{generator.integers(N_WORDS)}" for source in chosen]
        rows.append([id_, " ".join(words)])
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "question"], *rows])
    return truth


def write_program(folder, truth, seed):
    """A program right in three of four answers, which takes each class for the next; its labels."""
    generator = np.random.default_rng(seed)
    mistaken_for = dict(zip(CLASSES, CLASSES[1:] + CLASSES[:1], strict=True))
    labels = {
        id_: name if generator.random() < 0.75 else mistaken_for[name]
        for id_, name in truth.items()
    }
    (folder / "program.py").write_text(PROGRAM)
    (folder / "answers.json").write_text(json.dumps(labels))
    return labels


class Person:
    """Somebody who checks labels of the program on the page.

    One who only confirms skips wrong ones. ``n_checks`` is the number of labels so far.
    """

    def __init__(self, server, truth, labels, *, only_confirms):
        self.server = server
        self.truth = truth
        self.labels = labels
        self.only_confirms = only_confirms
        self.n_checks = 0

    def check(self, n_checks):
        """Answer items that the page draws until there are so many checks."""
        while n_missing := min(n_checks - self.n_checks, 10):
            drawn = self.server.post("/api/check", {"program": "machine:llm", "n": n_missing})
            assert drawn.json["n_queued"] == n_missing, drawn.body
            taken = self.server.post("/api/take", {"annotator": "ann", "n": n_missing})
            for item in taken.json["items"]:
                self.answer(item["position"], item["id"])

    def answer(self, position, item):
        is_right = self.labels[item] == self.truth[item]
        if self.only_confirms and not is_right:
            result = self.server.skip("ann", position, request=f"skip-{position}")
        else:
            result = self.server.label("ann", position, self.truth[item])
            self.n_checks += 1
        assert result.status == 200, result.body


def exported(server):
    """Rows of the page's export, once the worker's predictions know all answers; by id."""
    with Store.open(server.folder, read_only=True) as store:
        wait_for(lambda: store.settings.predictions and not newer_answers(store))
    rows = csv.DictReader(io.StringIO(server.get("/api/export?format=csv").body.decode()))
    return {row["id"]: row for row in rows}


def wrong(rows, column, truth):
    """Whether each row with a value in this column is wrong."""
    return np.array([row[column] != truth[id_] for id_, row in rows.items() if row[column]])


def rise_and_room(before, after):
    """By how much the error rises, and twice the Monte-Carlo error of that difference."""
    n_changed = int((before != after).sum())
    return float(after.mean() - before.mean()), 2.0 * n_changed**0.5 / len(after)


def program_error(status):
    """The error of the program as ``status --json`` has it."""
    (error,) = [row for row in status["annotators"] if row["name"] == "machine:llm"]
    return error


@pytest.mark.parametrize(
    ("only_confirms", "checks"), [(False, (0, 1, 2, 5, 20)), (True, (0, 1, 20))]
)
def test_no_check_of_a_program_makes_the_export_worse(run, tmp_path, only_confirms, checks):
    truth = write_questions(tmp_path / "questions.csv", seed=1)
    labels = write_program(tmp_path, truth, seed=2)
    roles = ("--text", "question", "--classes", ",".join(CLASSES), "--strategy", "margin")
    run("init", "p", "questions.csv", *roles)
    program = f"{sys.executable} program.py answers.json"
    size = ("-n", N_LABELS, "--budget", N_LABELS)
    run("label", "p", "--with", program, "--name", "llm", *size, "--no-report")
    history = []
    with serving(tmp_path / "p") as server:
        person = Person(server, truth, labels, only_confirms=only_confirms)
        for n_checks in checks:
            person.check(n_checks)
            rows = exported(server)
            status = json.loads(run("status", "p", "--json"))
            live = server.get("/api/live").json
            is_wrong = wrong(rows, "predicted", truth)
            label_error = float(wrong(rows, "label", truth).mean())
            expected = status["report"]["expected_error"]
            by_program = program_error(status)
            figures = (
                f"{n_checks} checks: predictions wrong in {is_wrong.mean():.1%} (expected "
                f"{expected['low']:.1%} to {expected['high']:.1%}), labels in {label_error:.1%} "
                f"(the program's: {by_program['low']:.1%} to {by_program['high']:.1%})"
            )
            print(figures)  # noqa: T201
            assert len(is_wrong) == N_ITEMS
            assert {row["predicted"] for row in rows.values()} == {*CLASSES}
            for earlier, earlier_label_error in history:
                rise, room = rise_and_room(earlier, is_wrong)
                assert rise <= 0.02 + room, f"worse by {rise:.1%} at {n_checks} checks"
                assert label_error <= earlier_label_error
            history.append((is_wrong, label_error))
            assert expected["low"] <= is_wrong.mean() <= expected["high"]
            assert live["known_error"]["error"] == expected
            (shown,) = live["programs"]
            if n_checks == 0:
                assert by_program["error"] is None
                assert "Not known" in shown["lines"][0]
                assert "error of machine:llm is not known" in run("status", "p")
                assert "Not known" in run("label", "p", "--report")
                run("predict", "p", "questions.csv", "--out", "predicted.csv")
                with open("predicted.csv", newline="", encoding="utf-8-sig") as file:
                    assert {row["predicted"] for row in csv.DictReader(file)} == {*CLASSES}
            elif not only_confirms:
                # Of somebody who skips wrong answers nobody can learn how many are wrong.
                answered = [labels[id_] != truth[id_] for id_, row in rows.items() if row["label"]]
                assert by_program["n_checked"] == n_checks
                assert by_program["low"] <= np.mean(answered) <= by_program["high"]
