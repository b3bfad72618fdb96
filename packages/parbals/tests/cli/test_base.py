"""Rare options are named and explained on request; a settings file holds options."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from parbals.cli.base import SETTINGS, Command, RareOption
from parbals.errors import InputError


@click.command(cls=Command)
@click.option("--name", required=True, help="Set the name.")
@click.option("--columns", help="Choose columns.")
@click.option("--size", type=int, default=1, cls=RareOption, help="Set the size in items.")
@click.option("--half", is_flag=True, cls=RareOption, help="Use half precision.")
@SETTINGS
def build(name, columns, size, half):
    """Build something."""
    click.echo(f"{name} {columns} {size} {half}")


def call(*arguments):
    return CliRunner().invoke(build, [str(argument) for argument in arguments])


def test_help_names_rare_options_and_help_all_explains_them():
    short = call("--help").output
    assert "More options, explained by --help-all: --size, --half." in short
    assert "half precision" not in short
    full = call("--help-all").output
    assert "Set the name." in full
    assert "Set the size in items." in full
    assert "Set the size" not in call("--help").output  # they are rare again


def test_rare_options_work_and_misspelt_ones_are_suggested():
    assert call("--name", "a", "--size", 3, "--half").output == "a None 3 True\n"
    assert "--size" in call("--name", "a", "--sise", 3).output


def test_a_file_holds_options_and_the_command_line_wins(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('name = "a"\ncolumns = ["x", "y"]\nsize = 3\nhalf = true\n')
    assert call("--settings", file).output == "a x,y 3 True\n"
    assert call("--settings", file, "--size", 4, "--name", "b").output == "b x,y 4 True\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sise = 3", "'sise' is no option of `build`. Did you mean 'size'?"),
        ("size = ", "is not a TOML file"),
        (None, "cannot be read"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path, text, complaint):
    file = Path(tmp_path / "settings.toml")
    if text is not None:
        file.write_text(text)
    error = call("--name", "a", "--settings", file).exception
    assert isinstance(error, InputError)
    assert complaint in str(error)


def test_a_value_of_the_wrong_type_is_refused(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('size = "large"')
    result = call("--name", "a", "--settings", file)
    assert result.exit_code == 2
    assert "--size" in result.output
