"""`parbals strategies`: the table for people and the records for programs."""

import json

from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.cli.strategies import as_records
from parbals.strategies.table import STRATEGIES


def shown(*arguments):
    result = CliRunner().invoke(parbals, ["strategies", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_has_a_line_for_every_strategy():
    lines = shown().splitlines()
    for name, strategy in STRATEGIES.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert strategy.cost in line
        assert strategy.reference in line
        marks = [
            strategy.needs_target,
            strategy.needs_features,
            strategy.needs_labels,
            strategy.batch_aware,
        ]
        assert line.split().count("yes") == sum(marks)


def test_records_say_the_same_for_programs():
    assert json.loads(shown("--json")) == as_records()


def test_a_strategy_of_another_package_is_listed_as_such():
    records = {record["name"]: record for record in as_records()}
    assert records["epig"]["built_in"]
    assert not records["density"]["built_in"]  # examples/parbals-density, which the tests install
    assert records["density"]["options"] == ["power"]
