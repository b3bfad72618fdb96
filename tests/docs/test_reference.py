"""Check that everything public is documented: names, commands, strategies, routes."""

import re
import subprocess
import sys
from inspect import getdoc, isclass, isfunction

import click
import parbals
import pytest
from pages import ROOT, RUN, blocks_of
from parbals.cli.base import RareOption
from parbals.cli.main import parbals as commands
from parbals.strategies.table import STRATEGIES
from repository import SOURCES

sys.path.append(str(ROOT / "docs" / "_site"))
PUBLIC = [*(name for name in parbals.__all__ if not name.startswith("_")), "open"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_stands_in_the_reference_with_what_it_does(name):
    assert f"parbals.{name}\n" in (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    thing = getattr(parbals, name)
    assert getdoc(thing)
    members = vars(thing).items() if isclass(thing) else ()
    for member, value in members:
        if not member.startswith("_") and isfunction(getattr(value, "__func__", value)):
            assert getdoc(getattr(thing, member)), f"{name}.{member} has no docstring"


def test_sentences_that_a_page_quotes_are_those_of_the_software():
    page = (ROOT / "docs" / "howto" / "how-many-labels.md").read_text("utf-8")
    quotes = re.findall(r"^\| \*([^*]+)\* \|", page, re.MULTILINE)
    assert len(quotes) >= 4
    sources = [path.read_text("utf-8") for source in SOURCES for path in source.rglob("*.py")]
    for quote in quotes:
        assert any(quote in source for source in sources), quote


QUESTIONS = (
    "How many labels do I need?",
    "Can I use my own sentence-transformer?",
    "How do I move a project to another machine?",
    "Is it private?",
    "How do I cite it?",
)


def test_questions_are_headings_with_a_short_answer_and_a_link():
    """Headings are what the site's search ranks first."""
    page = (ROOT / "docs" / "howto" / "questions.md").read_text("utf-8")
    questions = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    for wanted in QUESTIONS:
        assert any(question.startswith(wanted) for question in questions), wanted
    for question in questions:
        title, _, rest = question.partition("\n")
        answer = rest.split("\n## ")[0]
        assert title.endswith("?")
        assert len(answer.split()) <= 60, title
        assert "](" in answer, title
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert "\nhowto/questions\n" in index, "it is in the navigation"


def every_command(group=commands, path="parbals"):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")
        elif not command.hidden:
            yield pytest.param(command, id=f"{path} {name}")


@pytest.mark.parametrize("command", list(every_command()))
def test_every_command_and_option_says_what_it_does(command):
    assert command.help
    assert "Example" in command.help
    for option in (param for param in command.params if isinstance(param, click.Option)):
        if isinstance(option, RareOption) or not option.hidden:
            assert option.help, f"{option.opts} says nothing"


def every_group(group=commands):
    yield group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_group(command)


@pytest.mark.parametrize("group", list(every_group()), ids=lambda group: group.name)
def test_no_list_of_commands_cuts_a_sentence(group):
    assert "..." not in group.get_help(click.Context(group)).replace("[ARGS]...", "")


def test_every_command_and_option_is_in_the_reference():
    from reference import command_lines

    lines = list(command_lines())
    assert "## parbals labels review" in lines
    assert "## parbals check" not in lines  # hidden
    assert sum(line.startswith("* `--json`") for line in lines) > 20
    assert any(line.startswith("* `--batch-size N`") for line in lines)
    assert not any("labels-per-item" in line for line in lines)


def test_help_texts_begin_with_a_verb():
    """In the imperative: no article, question or default stands first."""
    not_verbs = {"a", "all", "an", "by", "columns", "how", "the", "what", "where", "which", "who"}
    for (command,) in (case.values for case in every_command()):
        texts = [command.help, *(p.help for p in command.params if isinstance(p, click.Option))]
        for text in filter(None, texts):
            first = text.split()[0].lower().strip(".,:;")
            assert first not in not_verbs, text


def test_every_strategy_says_what_it_does():
    from reference import strategy_lines

    rows = "\n".join(strategy_lines())
    for name, strategy in STRATEGIES.items():
        assert f"| `{name}` |" in rows
        assert strategy.about != "chosen by its score"


def test_every_route_says_what_it_does():
    from reference import route_lines

    rows = list(route_lines())[2:]
    assert len(rows) > 10
    for row in rows:
        assert len(row.split(" | ")[1]) > 10, row


@pytest.mark.full
def test_the_site_builds_without_a_warning(tmp_path):
    """Links inside the site, pictures and references are checked by this."""
    command = ["sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(tmp_path / "site")]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for page in (
        "index.html",
        "tutorials/texts.html",
        "tutorials/texts.ipynb",
        "explanation/idea.html",
    ):
        assert (tmp_path / "site" / "docs" / page).exists()
    assert (tmp_path / "site" / "searchindex.js").exists()
    tutorial = (tmp_path / "site" / "docs" / "tutorials" / "texts.html").read_text("utf-8")
    assert 'href="texts.ipynb"' in tutorial


@pytest.mark.parametrize("name", ["texts", "images", "table"])
def test_a_notebook_runs_what_its_tutorial_runs(name):
    from notebooks import notebook_of

    page = f"docs/tutorials/{name}.md"
    notebook = notebook_of((ROOT / page).read_text("utf-8"))
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    blocks = [block for block in blocks_of(page) if block.language in RUN and not block.reason]
    magic = {"python": "", "bash": "%%bash\n"}
    assert cells == [magic[block.language] + block.code.rstrip("\n") for block in blocks]
    assert notebook.metadata.kernelspec.language == "python"
