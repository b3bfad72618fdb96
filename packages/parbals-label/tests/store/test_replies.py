"""A record of payments that somebody else has made: refused in a sentence, in bounded time."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from parbals.errors import ProjectError
from parbals_label.store.replies import REPLIES_NAME, PaidReply, Replies, usage_of

PAID = PaidReply("ham", 200, 8, True, 0.5)
COLUMNS = (
    "prompt, created, annotator, model, content, confidence, tokens_in, tokens_out, counted, cost"
)
ENDLESS = (
    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS reply, 'p' AS prompt, 'x' AS created, 'machine:m' AS annotator, 'm' AS model, "
    "'ham' AS content, 1.0 AS confidence, 1 AS tokens_in, 1 AS tokens_out, 1 AS counted, "
    "0.0 AS cost FROM n"
)


@pytest.fixture
def folder(tmp_path):
    with Replies(tmp_path) as replies:
        replies.record(replies.expect("p", "machine:m", "m", PAID), PAID)
    return tmp_path


def change(folder, *statements):
    with closing(sqlite3.connect(folder / REPLIES_NAME, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


FOREIGN_TABLES = {
    "an endless view": ["DROP TABLE replies", f"CREATE VIEW replies AS {ENDLESS}"],
    "a trigger": [
        "CREATE TRIGGER free AFTER INSERT ON replies BEGIN UPDATE replies SET cost = 0; END"
    ],
    "another column": ["ALTER TABLE replies ADD COLUMN cheap REAL"],
    "a generated column": [
        "ALTER TABLE replies ADD COLUMN more TEXT AS (hex(zeroblob(100000000))) VIRTUAL"
    ],
    "no index": ["DROP INDEX by_prompt"],
    "another table": ["CREATE TABLE more (x)"],
}
FOREIGN_VALUES = {
    "a negative cost": "cost = -75.0",
    "an infinite cost": "cost = 9e999",
    "a cost in words": "cost = 'nothing'",
    "bytes for a cost": "cost = x'00'",
    "negative tokens": "tokens_in = -1",
    "too many tokens": f"tokens_out = {2**62}",
    "tokens in words": "tokens_in = 'many'",
    "bytes for a reply": "content = x'00ff'",
    "bytes for a name": "annotator = x'ff'",
    "a confidence above 1": "confidence = 2.0",
    "counted in words": "counted = 'yes'",
}


@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_other_tables_are_refused_before_anything_is_read_or_written(folder, kind):
    change(folder, *FOREIGN_TABLES[kind])
    before = (folder / REPLIES_NAME).read_bytes()
    with pytest.raises(ProjectError, match=r"its tables are not those of this parbals.*move it"):
        usage_of(folder)
    with pytest.raises(ProjectError, match="its tables are not those of this parbals"):
        Replies(folder)
    assert (folder / REPLIES_NAME).read_bytes() == before


@pytest.mark.parametrize("kind", FOREIGN_VALUES)
def test_values_that_are_no_payments_void_no_budget(folder, kind):
    change(folder, f"UPDATE replies SET {FOREIGN_VALUES[kind]}")
    with pytest.raises(ProjectError, match="rows are no payments"):
        usage_of(folder)
    with Replies(folder) as replies:
        with pytest.raises(ProjectError, match="rows are no payments"):
            replies.cost_of("machine:m")
        assert replies.to("p") == []


def test_a_read_that_takes_too_long_is_interrupted(folder, monkeypatch):
    rows = ", ".join(["('p', 'x', 'machine:m', 'm', 'ham', NULL, 1, 1, 1, 0.5)"] * 5_000)
    change(folder, f"INSERT INTO replies ({COLUMNS}) VALUES {rows}")
    assert usage_of(folder)[0].n_requests == 5_001
    monkeypatch.setattr("parbals_label.store.replies._MAX_SECONDS", 0.0)
    with pytest.raises(ProjectError, match=r"reading it takes more than 0 s.*move it away"):
        usage_of(folder)


def test_a_value_that_fills_the_memory_is_not_read(folder):
    change(folder, "UPDATE replies SET content = printf('%.*c', 50000000, 'x')")
    program = (
        "import sys; from pathlib import Path\n"
        "from parbals_label.store.replies import Replies, usage_of\n"
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "for read in (usage_of, lambda folder: Replies(folder).to('p')):\n"
        "    try:\n"
        "        read(Path(sys.argv[1]))\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
    )
    words = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"ProjectError"}


def test_damaged_bytes_are_one_sentence_or_do_not_matter(folder):
    data = (folder / REPLIES_NAME).read_bytes()
    for start in range(0, len(data), 97):
        damaged = data[:start] + bytes([data[start] ^ 0xFF]) + data[start + 1 :]
        (folder / REPLIES_NAME).write_bytes(damaged)
        try:
            usage_of(folder)
            with Replies(folder) as replies:
                replies.to("p")
        except ProjectError as error:
            message = str(error)
        else:
            message = "move it away"
        assert "move it away" in message


def test_an_expected_cost_stands_until_its_reply_comes(folder):
    expected = PaidReply(None, 2_000, 1_000, False, 2.0)
    with Replies(folder) as replies:
        number = replies.expect("q", "machine:m", "m", expected)
        assert replies.cost_of("machine:m") == 2.5
        assert replies.to("q") == []
        replies.record(number, PAID)
        assert replies.cost_of("machine:m") == 1.0
        replies.record_confidence(number, 0.75)
        assert replies.to("q") == [("ham", 0.75)]
        replies.cancel(number)
        assert replies.cost_of("machine:m") == 0.5
