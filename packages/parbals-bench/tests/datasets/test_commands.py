"""`parbals data` as a person types it."""

import json

from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_bench.datasets import table


def run(*arguments):
    return CliRunner().invoke(parbals, ["data", *arguments])


def test_every_dataset_is_listed():
    assert [record["name"] for record in json.loads(run("list", "--json").output)] == list(
        table.DATASETS
    )
    assert "airline" in run("list").output


def test_what_needs_no_download_or_has_no_address_says_so():
    assert "needs no download" in str(run("fetch", "digits").exception)
    refused = run("fetch", "airline").exception
    assert isinstance(refused, InputError)
    assert "download" in str(refused)
    assert "no dataset 'mnist'" in str(run("fetch", "mnist").exception)
