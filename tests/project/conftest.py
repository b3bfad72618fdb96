"""A small project with text, numbers and some labels, made by the real commands."""

import csv

import pytest
from click.testing import CliRunner
from message_data import message, truth

from parbals.cli.main import parbals


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in ``tmp_path``; returns its output, and fails if it was not expected to fail."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARBALS_CACHE_DIR", str(tmp_path / "cache"))

    def call(*arguments, fails=False):
        result = CliRunner().invoke(parbals, [str(a) for a in arguments])
        assert (result.exit_code != 0) == fails, (result.output, result.exception)
        return result if fails else result.output

    return call


@pytest.fixture
def messages(tmp_path):
    """messages.csv: 60 messages, the first six labelled, ids with leading zeros."""
    path = tmp_path / "messages.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "length", "label"])
        writer.writerows(
            [f"{i:03d}", message(i), len(message(i)), truth(i) if i < 6 else ""] for i in range(60)
        )
    return path


@pytest.fixture
def project(run, messages, tmp_path):
    run("init", "spam", messages, "--text", "message", "--label", "label", "--classes", "ham,spam")
    return tmp_path / "spam"
