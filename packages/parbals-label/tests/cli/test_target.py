"""The commands of the target set."""

import json

from message_data import message
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def write_new(path, n=8):
    lines = ["id,message,visits", *(f"n{i},{message(i + 100)},{i}" for i in range(n))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_target_is_added_shown_and_removed(run, project, tmp_path):
    new = write_new(tmp_path / "new.csv")
    assert "items like the project's" in run("target", "show", project)
    output = run("target", "add", project, new)
    assert "8 rows of new.csv" in output
    assert "Margin does not use the target set" in output
    status = run("status", project)
    assert "labels are chosen for the target set new.csv" in status
    assert "on the target set: " in status
    assert "; on the pool: " in status
    record = json.loads(run("status", project, "--json"))
    assert record["target"] == "new.csv"
    assert record["report"]["pool_error"]["mean"] > 0
    assert record["report"]["shift"] == {"auc": None, "n_rows": 8}
    assert "is not known from 8 rows" in status
    assert run("target", "show", project).startswith("new.csv: 8 rows, added on 20")
    record = json.loads(run("target", "show", project, "--json"))["target"]
    assert (record["n_rows"], record["where"], record["weights"]) == (8, None, None)
    run("target", "add", project, new, "--weights", "visits", "--no-report")
    assert "weighted by visits" in run("target", "show", project)
    run("target", "add", project, "length > 20")
    assert run("target", "show", project).startswith("length > 20: ")
    assert "added the target set new.csv, 8 rows" in run("team", "log", project)
    assert "no longer" in run("target", "remove", project)
    assert json.loads(run("target", "show", project, "--json")) == {"target": None}


def test_errors_are_sentences_and_change_nothing(run, project, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("id,text\n1,hello\n")
    for arguments in ([bad], ["none.csv"], ["city = Basel"], ["length = 999999"]):
        error = run("target", "add", project, *arguments, fails=True)
        assert str(error.exception).endswith(".")
    assert "no target set" in str(run("target", "remove", project, fails=True).exception)
    with Store.open(project, read_only=True) as store:
        assert store.settings.target is None


def test_init_takes_a_file_or_a_filter(run, messages, tmp_path):
    new = write_new(tmp_path / "new.csv")
    roles = [messages, "--text", "message", "--label", "label"]
    output = run("init", "p", *roles, "--target", new, "--target-weights", "visits")
    assert "for the target set: 8 rows of" in output
    record = json.loads(run("init", "q", *roles, "--target", "length > 20", "--json"))
    assert 0 < record["target"] < 60
    run("init", "r", *roles, "--target", "city = Basel", fails=True)
    assert not (tmp_path / "r").exists()


def test_the_error_and_shares_on_the_target_are_measured(run, project, tmp_path):
    run("target", "add", project, write_new(tmp_path / "new.csv"))
    assert "parbals measure" in run("status", project)
    assert "--from target" in run("status", project)
    assert "--keep" in str(
        run("measure", project, "--keep", "--from", "target", fails=True).exception
    )
    output = run("measure", project, "-n", "6", "--from", "target")
    assert "6 random items of the target set are in" in output
    (batch,) = project.glob("batch-*.csv")
    lines = batch.read_text(encoding="utf-8-sig").splitlines()
    assert sum("(target " in line for line in lines) == 6
    with Store.open(project) as store:
        positions = store.settings.target_items
        store.submit([Submission(p, "spam") for p in positions], annotator="me")
    assert "from the target set new.csv" in run("measure", project)
    assert "spam among the target set (8 items, 6 random labels): 100 %" in run(
        "estimate", project, "--share", "spam", "--from", "target"
    )


def test_what_is_predicted_every_week_is_the_target(run, project, tmp_path):
    weeks = [write_new(tmp_path / f"week-{week}.csv") for week in (1, 2)]
    out = tmp_path / "predicted.csv"
    output = run("predict", project, weeks[0], "--out", out, "--as-target")
    assert "8 items predicted" in output
    assert "Labels are chosen for them from now on." in output
    run("target", "add", project, weeks[1], "--share", "0.75", "--no-report")
    shown = run("target", "show", project)
    assert shown.startswith("week-2.csv, week-1.csv: 16 rows")
    assert "week-2.csv: 75 % of all weight\nweek-1.csv: 25 % of all weight" in shown
