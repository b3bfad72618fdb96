"""No statement fails more often than it says, in the made sessions that come nearest to it."""

import json
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from dose import full_count

ROOT = Path(__file__).parents[3]
KEYS = (
    *("now", "kept", "share", "rmse-normal", "median"),
    *("program", "program-share", "mix", "drift"),
)
MANY = 2_000


@pytest.fixture
def statements(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "studies")
    return import_module("error_estimates.statements.streams").STATEMENTS


def sessions_that_notice(rate):
    """Sessions in which twice the rate is above the rate by two Monte-Carlo errors, nine in ten."""
    error_of_rate = math.sqrt(rate * (1 - rate))
    error_of_double = math.sqrt(2 * rate * (1 - 2 * rate))
    return math.ceil(((2.0 * error_of_rate + 1.4 * error_of_double) / rate) ** 2)


def failure_rate(statement, n_sessions):
    """In the cell that fails most often."""
    outcome = statement.stream(statement.worst, n_sessions, np.random.default_rng(57))
    fails = outcome.high if statement.upper_alone else outcome.low | outcome.high
    return fails.mean()


@pytest.mark.parametrize(
    ("key", "n_most"),
    [
        *((key, 0) for key in KEYS if key != "drift"),  # rare alarms take a minute
        *(pytest.param(key, full_count(MANY), marks=pytest.mark.slow) for key in KEYS),
    ],
)
def test_a_statement_fails_no_more_often_than_it_says(statements, key, n_most):
    statement = statements[key]
    rate = statement.may_fail
    n_sessions = max(n_most, sessions_that_notice(rate))
    limit = rate + 2.0 * math.sqrt(rate * (1 - rate) / n_sessions)
    assert failure_rate(statement, n_sessions) <= limit


def test_every_statement_with_a_probability_is_among_them(statements):
    assert set(KEYS) == {key for key, each in statements.items() if each.may_fail is not None}


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1])
def test_so_many_sessions_notice_a_doubled_rate(rate):
    n = sessions_that_notice(rate)
    limit = rate + 2.0 * math.sqrt(rate * (1 - rate) / n)
    counts = np.random.default_rng(0).binomial(n, 2 * rate, 20_000)
    assert (counts / n > limit).mean() >= 0.9


def test_the_table_is_that_of_the_record(statements, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "studies")
    page = import_module("error_estimates.statements.page")
    folder = ROOT / "studies/error_estimates/statements"
    records = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    assert "\n".join(page.page(records)) + "\n" == (folder / "README.md").read_text("utf-8")
    coverage = (ROOT / "docs/explanation/coverage.md").read_text("utf-8")
    assert "\n".join(page.statement_table(records)) in coverage
