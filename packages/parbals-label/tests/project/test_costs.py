"""Choose questions by information per cost: batch files, and programs."""

import csv
import json

import pytest
from click.testing import CliRunner
from message_data import message, truth
from parbals.errors import InputError
from parbals_label.cli.batch import next_, tell
from parbals_label.cli.label import label
from parbals_label.project.choose import NothingAvailableError, choose_by_cost
from parbals_label.project.create import Roles, create_project
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

COSTS = {"ada": 1.0, "machine:rule": 0.01}


@pytest.fixture
def project(tmp_path):
    with open(tmp_path / "mail.csv", "w", newline="", encoding="utf-8") as file:
        rows = (["x", message(i)] for i in range(40))
        csv.writer(file).writerows([["annotator", "message"], *rows])
    roles = Roles(text=("message",))
    create_project(
        tmp_path / "p", tmp_path / "mail.csv", roles, ["ham", "spam"], {"audit": (3, 17, 25, 33)}
    )
    with Store.open(tmp_path / "p") as store:
        free = [p for p in range(40) if p not in store.settings.audit]
        said(store, "ada", free[:12])
    return tmp_path / "p"


def said(store, name, positions, right=True):
    other = {"ham": "spam", "spam": "ham"}
    labels = {p: truth(p) if right else other[truth(p)] for p in positions}
    source = "machine" if name.startswith("machine:") else "person"
    given = [Submission(p, text) for p, text in labels.items()]
    store.submit(given, annotator=name, source=source)


def call(command, *arguments):
    found = CliRunner().invoke(command, [str(one) for one in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_a_batch_file_says_whom_to_ask_and_is_told_by_their_names(project, tmp_path):
    path = tmp_path / "batch.csv"
    arguments = ("--cost", "ada=1,machine:rule=0.01", "-n", "10", "--out", path)
    told = json.loads(call(next_, project, *arguments, "--json").stdout)
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == told["ids"]
    assert {row["item.annotator"] for row in rows} == {"x"}
    assert {row["annotator"] for row in rows} <= COSTS.keys()
    assert "machine:rule" in {row["annotator"] for row in rows}
    call(next_, project, "--again", told["batch"], "--out", path, "--force")
    with open(path, newline="", encoding="utf-8-sig") as file:
        assert list(csv.DictReader(file)) == rows
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": "ham"} for row in rows)
    assert f"{len(rows)} new labels" in call(tell, project, path, "--no-report").stdout
    with Store.open(project) as store:
        answers = store.current_labels()
        for row in rows:
            (position,) = store.known_positions([row["id"]]).values()
            assert answers[position][row["annotator"]] == "ham"
        assert not store.pending()


def test_nothing_is_told_where_one_of_several_annotators_is_refused(project, tmp_path):
    with Store.open(project) as store:
        taken, free = next(iter(store.current_labels())), store.n_items - 1
        ids = [item.id for item in store.items([free, taken])]
    other = {"ham": "spam", "spam": "ham"}[truth(taken)]
    rows = [["id", "label", "annotator"], [ids[0], "ham", "bob"], [ids[1], other, "ada"]]
    with open(tmp_path / "two.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(InputError, match="ada"):
        call(tell, project, tmp_path / "two.csv")
    with Store.open(project) as store:
        assert free not in store.current_labels()


def test_second_opinions_are_asked_of_people_where_programs_have_answered_all(project):
    with Store.open(project) as store:
        rest = [p for p in range(40) if p not in store.settings.audit]
        said(store, "machine:rule", rest)
        number, asked = choose_by_cost(store, 5, COSTS)
        fresh = {p for p, who in asked if p in store.settings.audit}
        assert all(who == "ada" for p, who in asked if p in fresh)
        assert len(asked) == 5
        assert set(store.pending()) == fresh
        assert (number is None) == (not fresh)


def test_where_nothing_is_left_or_labels_are_numbers_it_says_so(project, tmp_path):
    with (
        Store.open(project) as store,
        pytest.raises(NothingAvailableError, match="nothing is left"),
    ):
        choose_by_cost(store, 3, COSTS, leave_out=range(40))
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    create_project(
        tmp_path / "n", tmp_path / "x.csv", Roles(features=("x",)), None, {"task": "regression"}
    )
    with pytest.raises(InputError, match="Costs need a project with one class per item"):
        call(next_, tmp_path / "n", "--cost", "ada=1")


def test_a_program_is_asked_while_it_is_worth_its_cost(project, tmp_path):
    program = tmp_path / "rule.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    item = json.loads(line)\n"
        "    print(json.dumps({'id': item['id'], 'label': 'ham'}), flush=True)\n"
    )
    words = (project, "--with", f"python {program}", "--name", "rule", "-n", "8", "--json")
    with pytest.raises(InputError, match="add rule="):
        call(label, *words, "--cost", "ada=1")
    dear = json.loads(call(label, *words, "--cost", "ada=1,rule=1000").stdout)
    assert (dear["ended"], dear["stored"]) == ("worth", 0)
    cheap = json.loads(call(label, *words, "--cost", "ada=1,rule=0.001", "--no-report").stdout)
    assert cheap["stored"] > 0
    with Store.open(project) as store:
        by_rule = {p for p, by in store.current_labels().items() if "machine:rule" in by}
        assert not by_rule & set(store.settings.audit)


@pytest.mark.parametrize("costs", ["ada", "ada=", "=1", "ada=0", "ada=-1", "ada=inf", "a=x,b=1"])
def test_what_are_no_costs_is_refused(project, costs):
    found = call(next_, project, "--cost", costs)
    assert found.exit_code == 2
    assert "is no list of costs" in found.output
