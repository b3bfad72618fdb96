"""`parbals doctor` lists packages and speed; `parbals strategies` lists strategies."""

import json
import tomllib

import numpy as np
import pytest
from click.testing import CliRunner
from parbals import __version__
from parbals.cli import commands
from parbals.cli.commands import as_text
from parbals.cli.main import main, parbals
from parbals.installing import install_command
from parbals.strategies.table import STRATEGIES
from repository import ROOT

SMALL = {"n_labels": 20, "n_features": 4, "n_pool": 40, "n_target": 8, "batch_size": 3}


def a_checkup(**changes: object) -> dict[str, object]:
    return {
        "python": "3.12.1",
        "platform": "Linux",
        "parbals": __version__,
        "packages": {"numpy": "2.0.0", "parbals-bench": None},
        "devices": ("gpu: NVIDIA H200",),
        "n_cores": 2,
        "speed": {"fit": 0.1, "batch": 0.3, "product": 0.2, "workload": SMALL},
    } | changes


def test_doctor_finds_the_required_packages():
    checkup = commands.examine(with_speed=False)
    assert checkup["parbals"] == __version__
    assert checkup["packages"]["numpy"] == np.__version__
    assert all(checkup["packages"][name] for name, extra in commands._PACKAGES.items() if not extra)
    assert checkup["devices"]
    assert checkup["n_cores"] >= 1
    assert checkup["speed"] is None


@pytest.mark.full
def test_the_measurement_times_all_three_steps():
    speed = commands.measure_speed(**SMALL)
    assert min(speed["fit"], speed["batch"], speed["product"]) > 0
    assert speed["workload"] == SMALL


def test_a_missing_optional_package_comes_with_its_command():
    text = as_text(a_checkup())
    assert install_command("parbals[bench]") in text
    assert "gpu: NVIDIA H200" in text
    assert "0.300 s" in text


def test_without_jax_it_computes_on_the_processor(monkeypatch):
    monkeypatch.setattr(commands, "_version_of", lambda name: None if name == "jax" else "1")
    assert "processor" in commands.examine(with_speed=False)["devices"][0]


def test_a_missing_required_package_is_called_missing():
    assert "missing" in as_text(a_checkup(packages={"numpy": None}))


def test_every_optional_package_names_an_extra_that_exists():
    project = tomllib.loads((ROOT / "packages" / "parbals" / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    assert set(commands._PACKAGES.values()) <= {"", *project["optional-dependencies"]}


def test_the_command_prints_json_alone_on_stdout(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--no-speed"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["parbals"] == __version__


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


def test_records_say_the_same_for_programs_and_whose_a_strategy_is():
    records = {record["name"]: record for record in json.loads(shown("--json"))}
    for name, strategy in STRATEGIES.items():
        assert records[name]["cost"] == strategy.cost
        assert records[name]["needs_target"] == strategy.needs_target
    assert records["epig"]["built_in"]
    assert not records["density"]["built_in"]  # examples/parbals-density, which the tests install
    assert records["density"]["options"] == ["power"]
