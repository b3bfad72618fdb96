"""`parbals label --llm`: its options, what it prints, and what it refuses."""

import json
import sqlite3
from contextlib import closing

import pytest
from chat_server import KEY, chat_server
from click.testing import CliRunner
from machine_projects import make_project
from message_projects import copy_project
from parbals.cli.main import main
from parbals.errors import ParbalsError, ProjectError
from parbals_label.cli.label import label as command
from parbals_label.machines.llm.endpoint import key_from
from parbals_label.project.checks import queue_checks
from parbals_label.store.records import Submission
from parbals_label.store.replies import REPLIES_NAME, PaidReply, Replies, money, usage_of
from parbals_label.store.store import Store

LLM = ["--llm", "http://127.0.0.1:9/v1", "--model", "m"]
REFUSED = {
    "no model": (LLM[:2], "--llm needs --model"),
    "both": ([*LLM, "--with", "python3"], "Say who labels"),
    "nobody": ([], "Say who labels"),
    "a price of a program": (["--with", "python3", "--price", "1,2"], "belong to --llm"),
    "money of a program": (["--with", "python3", "--max-cost", "5"], "belongs to --llm"),
    "money without a price": ([*LLM, "--max-cost", "5"], "--price IN,OUT"),
    "no money": ([*LLM, "--price", "1,2", "--max-cost", "0"], "is not in the range"),
    "money as labels": ([*LLM, "--price", "1,2", "--budget", "5.00"], "is not a valid integer"),
    "no address": (["--llm", "localhost:8000", "--model", "m"], "not the address"),
    "a password": (["--llm", "http://a:b@host/v1", "--model", "m"], "must not hold a user"),
    "one price": ([*LLM, "--price", "1"], "is no price"),
    "no budget": ([*LLM, "--budget", "0"], "is not in the range"),
    "a key on the command line": ([*LLM, "--key", KEY], "does not belong on the command line"),
    "a variable that is not set": ([*LLM, "--key", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
}


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("llm") / "spam", 20, labelled=6)


@pytest.fixture
def run(made_once, tmp_path):
    folder = copy_project(made_once, tmp_path / "spam")

    def call(*arguments):
        return CliRunner().invoke(command, [str(folder), *map(str, arguments)])

    call.folder = folder
    return call


for address in (
    "http://[::1/v1",
    "http://host:port/v1",
    "http://host:99999/v1",
    "http://host/v1?key=x",
    "http://host/v1#x",
    "http://host/a b",
    "http://host/\x1b[2J",
    "http://host/ü",
    "http://]",
    "https://",
    " ",
    "file:///etc/passwd",
):
    REFUSED[f"the address {address!r}"] = (["--llm", address, "--model", "m"], "not the address")
REFUSED |= {
    "a price beyond counting": ([*LLM, "--price", f"{'9' * 400},1"], "is no price"),
    "a cost beyond counting": (
        [*LLM, "--price", "1,2", "--max-cost", f"{'9' * 400}.0"],
        "is not in the range",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused_in_a_sentence_before_anything_starts(run, case):
    arguments, phrase = REFUSED[case]
    result = run(*arguments)
    message = f"{result.output}{result.stderr}{result.exception}"
    assert result.exit_code == 2 or isinstance(result.exception, ParbalsError)
    assert phrase in message
    assert KEY not in message
    with Store.open(run.folder) as store:
        assert (store.events(), store.batches()) == ([], [])


def test_a_dry_run_shows_one_prompt_and_sends_nothing(run):
    with chat_server() as server:
        result = run("--llm", server.url, "--model", "m", "--price", "1,2", "--dry-run")
        assert server.seen == []
    assert result.exit_code == 0, result.exception
    assert "--- system ---" in result.output
    assert "Items that people have labelled:" in result.output
    assert "items to label, about " in result.output
    assert result.output.rstrip().endswith("Nothing was sent.")
    assert not (run.folder / REPLIES_NAME).exists()


def test_labels_money_and_tokens_are_printed_and_in_the_status(run, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with chat_server() as server:
        arguments = ["--llm", server.url, "--model", "org/m 1", "--price", "1,10"]
        result = run(*arguments, "--budget", "5", "--json")
        assert result.exit_code == 0, result.exception
        shown = json.loads(result.stdout)
        assert (shown["annotator"], shown["stored"], shown["ended"]) == (
            "machine:org-m-1",
            5,
            "budget",
        )
        assert shown["usage"]["cost"] == pytest.approx(5 * 280e-6)
        money_run = run(*arguments, "--max-cost", "1", "--no-report")
        assert money_run.exit_code == 0, money_run.exception
        assert "Ended: every item is labelled" in money_run.output
        assert "So far machine:org-m-1: " in money_run.output
        assert f"parbals label {run.folder} --name org-m-1 --check 20" in money_run.output
        assert f"Next: parbals serve {run.folder}" in run("--check", "5").output
        assert KEY not in money_run.output + money_run.stderr
        assert all(r.headers["Authorization"] == f"Bearer {KEY}" for r in server.seen)
    (usage,) = usage_of(run.folder)
    with pytest.raises(SystemExit):
        main(["status", str(run.folder)])
    assert usage.sentence in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["status", str(run.folder), "--json"])
    assert json.loads(capsys.readouterr().out)["llms"][0]["n_requests"] == usage.n_requests


def test_pause_and_resume_are_commands_that_send_nothing(run):
    with chat_server() as server:
        arguments = ["--llm", server.url, "--model", "m", "--no-report"]
        assert run(*arguments, "--budget", "3").exit_code == 0
        assert "machine:m is paused" in run("--pause").output
        n_requests = len(server.seen)
        assert "resume it on the labelling page" in str(run(*arguments).exception)
        assert len(server.seen) == n_requests
        assert "may label again" in run("--resume", "--name", "m").output
        assert run(*arguments, "--budget", "2").exit_code == 0
    assert "Say --pause or --resume alone" in str(run("--pause", "--resume").exception)


def test_what_a_model_is_unsure_of_goes_to_people_and_is_drawn_like_other_answers(run):
    with Store.open(run.folder) as store:
        rows = [
            Submission(p, "ham", comment=json.dumps({"confidence": p / 20})) for p in range(6, 20)
        ]
        store.submit(rows, annotator="machine:m", source="machine")
    result = run("--unsure", "3", "--json")
    assert json.loads(result.stdout)["items"] == ["006", "007", "008"]
    assert "Say --check or --unsure" in str(run("--unsure", "3", "--check", "3").exception)
    with Store.open(run.folder) as store:
        assert len(store.queued()[0]) == 3
        drawn = queue_checks(store, 14).positions
        assert sorted(drawn) == list(range(6, 20))
        assert len(store.queued()[0]) == 14


def test_a_failing_endpoint_gives_exit_code_1_and_one_sentence(run):
    result = run(*LLM, "--retries", "0")
    assert result.exit_code == 1
    assert (
        "Ended: the annotator does not work (the endpoint http://127.0.0.1:9/v1 cannot be reached"
        in (result.output)
    )


def write_garbage(file):
    file.write_bytes(b"no database at all" * 100)


def write_view(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE VIEW replies AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i FROM n) "
            "SELECT i AS cost FROM n"
        )


def write_negative_cost(file):
    paid = PaidReply("ham", 1, 1, True, -100.0)
    with Replies(file.parent) as replies:
        replies.expect("p", "machine:m", "m", paid)


@pytest.mark.parametrize("write", [write_garbage, write_view, write_negative_cost])
def test_a_record_of_replies_that_is_not_ours_is_one_sentence(run, write):
    write(run.folder / REPLIES_NAME)
    for arguments in ([*LLM, "--price", "1,1", "--max-cost", "1.00"], ["--report"]):
        result = run(*arguments)
        assert isinstance(result.exception, ProjectError)
        assert "move it away" in str(result.exception)
    with pytest.raises(SystemExit) as ended:
        main(["status", str(run.folder)])
    assert ended.value.code == 0, "everything else goes on"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.example.com/v1", "secret"),
        ("http://localhost:8000/v1", "secret"),
        ("http://10.0.0.5:8000/v1", ""),
    ],
)
def test_the_usual_key_is_not_sent_unencrypted_to_other_machines(url, key):
    assert key_from(None, url, {"OPENAI_API_KEY": "secret"}) == key
    assert key_from("MY_KEY", url, {"MY_KEY": "mine"}) == "mine"


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (12, "12.00"), (0.5, "0.50"), (0.0234, "0.0234"), (0.00012, "0.00012")],
)
def test_money_is_shown_with_digits_that_matter(amount, text):
    assert money(amount) == text
