"""The command: what it refuses, what it prints, Ctrl-C and kill -9."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner
from dose import full_count
from machine_projects import alive, make_project
from parbals.errors import ParbalsError
from parbals_label.cli.label import label as command
from parbals_label.store.store import Store

GOOD = "for item in items(): say(item, 'spam' if int(item['id']) % 3 == 0 else 'ham')\n"


@pytest.fixture
def run(project):
    def call(*arguments, folder=project):
        return CliRunner().invoke(command, [str(folder), *map(str, arguments)])

    return call


@pytest.fixture
def start(project):
    """Start the command as its own process."""
    running = []

    def call(*arguments, folder=project):
        process = subprocess.Popen(
            [sys.executable, "-m", "parbals", "label", str(folder), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield call
    for process in running:
        process.kill()
        process.communicate()


def events(project):
    with Store.open(project) as store:
        return [event.kind for event in store.events()], store.batches(), store.n_labelled


REFUSED = {
    "nobody": [],
    "an empty command": ["--with", " "],
    "open quotes": ["--with", "python3 'x"],
    "no such program": ["--with", "no-such-program-here"],
    "an empty name": ["--with", "python3", "--name", " "],
    "a prefix": ["--with", "python3", "--name", "machine:x"],
    "a name that cannot be shown": ["--with", "python3", "--name", "a\x1bb"],
    "no items": ["--with", "python3", "-n", "0"],
    "no budget": ["--with", "python3", "--budget", "0"],
    "no rate": ["--with", "python3", "--rate", "0"],
    "negative retries": ["--with", "python3", "--retries", "-1"],
    "no time": ["--with", "python3", "--timeout", "0"],
    "a time that is not a number": ["--with", "python3", "--timeout", "soon"],
    "endless time": ["--with", "python3", "--timeout", "inf"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused_before_anything_starts(run, project, case):
    result = run(*REFUSED[case])
    assert result.exit_code == 2 or isinstance(result.exception, ParbalsError)
    assert events(project) == ([], [], 0)


def test_no_project_there_is_one_sentence(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path / "none"), "--with", sys.executable])
    assert "There is no project" in str(result.exception)


def test_a_program_labels_and_the_summary_is_json(run, write, project):
    result = run("--with", shlex.join(write(GOOD, "rule")), "--budget", "5", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["annotator"], told["stored"], told["ended"]) == ("machine:rule", 5, "budget")
    with Store.open(project) as store:
        assert store.latest_report().n_labels == 5


def test_random_answers_wait_to_be_checked(run, write, project):
    assert "there are none" in str(run("--check", 3).exception)
    program = shlex.join(write(GOOD, "rule"))
    run("--with", program, "--no-report", "--budget", 6)
    summary = json.loads(run("--check", 3, "--json").stdout)
    assert summary["annotator"] == "machine:rule"
    assert len(summary["items"]) == 3
    with Store.open(project, read_only=True) as store:
        waiting, _ = store.queued()
        assert set(store.position_of(summary["items"])) <= set(waiting)
    assert "label nothing" in str(run("--check", 3, "--with", program).exception)


def test_an_annotator_that_does_not_work_gives_exit_code_one(run, write):
    result = run(
        "--with", shlex.join(write("sys.exit('out of credit')\n")), "--retries", "0", "-n", "3"
    )
    assert result.exit_code == 1
    assert "No label for item" in result.stderr
    assert (
        "Ended: the annotator does not work (it ended with exit code 1, saying: out of credit)"
        in result.stdout
    )


SLOW = """
for k, item in enumerate(items()):
    if k == 2:
        Path(__file__).with_suffix(".ready").write_text(str(os.getpid()))
        time.sleep(600)
    say(item)
"""


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def wait_for_labels(project, n):
    with Store.open(project, read_only=True) as store:
        while store.n_labelled < n:
            time.sleep(0.02)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_ctrl_c_stores_what_has_arrived_and_gives_the_rest_back(
    start, write, project, tmp_path, number
):
    process = start("--with", shlex.join(write(SLOW)), "-n", "6")
    wait_for(tmp_path / "annotator.ready", process)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "2 labels stored as machine:annotator" in out
    with Store.open(project) as store:
        assert (store.n_labelled, store.pending(), store.check()) == (2, [], [])
    assert not alive(int((tmp_path / "annotator.ready").read_text()))


def test_kill_minus_nine_loses_nothing_and_running_again_goes_on(
    start, run, write, project, tmp_path
):
    process = start("--with", shlex.join(write(SLOW)), "-n", "6")
    wait_for(tmp_path / "annotator.ready", process)
    wait_for_labels(project, 2)
    process.kill()
    process.communicate()
    # The program sleeps on, having no reason to end.
    os.kill(int((tmp_path / "annotator.ready").read_text()), signal.SIGKILL)
    with Store.open(project) as store:
        before, out = store.current_labels(), store.pending()
        assert (len(before), len(out), store.check()) == (2, 4, [])
    result = run("--with", shlex.join(write(GOOD)), "-n", "6", "--no-report")
    assert "4 items that were assigned to an earlier run are asked first." in result.stderr
    with Store.open(project) as store:
        after = store.current_labels()
        assert (len(after), store.pending()) == (12, [])
        assert before.items() <= after.items()


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param((1, 4, 7), marks=pytest.mark.full),
        pytest.param(range(1, 1 + full_count(55)), marks=pytest.mark.faults),
    ],
    ids=["a few", "many"],
)
def test_kill_minus_nine_again_and_again(start, run, write, tmp_path, project, moments):
    """Killed as soon as so many labels are stored: what was stored is there once at the end."""
    folder = project if len(moments) < 10 else make_project(tmp_path / "larger", 60)
    body = "for item in items():\n  time.sleep(0.05)\n  say(item)\n"
    seen = {}
    for n_labels in moments:
        process = start("--with", shlex.join(write(body)), "-n", "2", "--no-report", folder=folder)
        wait_for_labels(folder, n_labels)
        process.kill()
        process.communicate()
        with Store.open(folder) as store:
            now = store.current_labels()
            assert store.check() == []
        assert seen.items() <= now.items()
        seen = now
    result = run("--with", shlex.join(write(GOOD)), "--no-report", folder=folder)
    assert result.exit_code == 0, result.output
    with Store.open(folder) as store:
        asked = set(range(store.n_items)) - {copy for copy, _ in store.settings.copies}
        assert (store.n_labelled, store.pending()) == (len(asked), [])
        assert seen.items() <= store.current_labels().items()
        assert all(len(store.history(position)) == 1 for position in asked)
