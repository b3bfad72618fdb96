"""`parbals bench data` as a person types it."""

import json

from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals_bench.datasets import table


def run(*arguments):
    return CliRunner().invoke(parbals, ["bench", "data", *arguments])


def test_every_dataset_is_listed():
    assert [record["name"] for record in json.loads(run("list", "--json").output)] == list(
        table.DATASETS
    )
    assert "airline" in run("list").output


def test_a_dataset_that_is_not_there_says_where_it_is_to_be_had(tmp_path):
    output = run("embed", "ag-news", "--encoder", "words", "--data", str(tmp_path))
    assert "`curl -L" in str(output.exception)
    assert "no dataset 'mnist'" in str(run("embed", "mnist", "--encoder", "words").exception)


def test_a_dataset_that_cannot_be_fetched_says_what_to_download_and_where(tmp_path):
    assert "needs no download" in str(run("fetch", "digits").exception)
    by_account = str(run("fetch", "airline", "--data", str(tmp_path)).exception)
    assert f"save as {tmp_path / 'train.csv'}" in by_account
    too_large = str(run("fetch", "fmow", "--data", str(tmp_path)).exception)
    assert "54 GB" in too_large
    assert "curl -L" in too_large
    assert "no dataset 'mnist'" in str(run("fetch", "mnist").exception)
