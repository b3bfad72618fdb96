"""The command line: quick to start, one sentence for an error, honest exit codes."""

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points

import parbals_bench.demo.story
import pytest
from parbals import __version__
from parbals.cli import main as cli
from parbals.errors import InputError
from parbals.installing import install_command


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return ended.value.code


@pytest.mark.parametrize("arguments", [[], ["demo"], ["doctor"]])
def test_help_shows_an_example(arguments, capsys):
    assert run_main(*arguments, "--help") == 0
    output = capsys.readouterr().out
    assert "Example" in output
    assert " ".join(["parbals", *(arguments or ["init"])]) in output


def test_the_first_help_fits_one_screen_and_begins_with_a_project(capsys):
    assert run_main("--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith("...") for line in lines if "COMMAND" not in line)
    starts = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert starts == ["Usage:", *cli._SECTIONS, "`parbals"]


def test_every_command_stands_in_a_section_and_names_its_package():
    """A package that is not installed cannot say which commands it has; the table must."""
    commands = {
        entry.name: {command.name for command in entry.load()}
        for entry in entry_points(group="parbals.commands")
        if entry.name in ("label", "bench")
    }
    expected = {name: extra for extra, names in commands.items() for name in names}
    assert expected == cli._EXTRAS
    modules = {
        entry.name: entry.value.removesuffix(":COMMANDS")
        for entry in entry_points(group="parbals.commands")
        if entry.name in ("label", "bench")
    }
    assert modules == cli._MODULES
    hidden = {"check"}
    sections = {name for names in cli._SECTIONS.values() for name in names}
    assert sections == expected.keys() - hidden | {"doctor", "strategies"}


@pytest.mark.parametrize("package", ["parbals_label", "parbals_bench"])
def test_a_package_finds_each_command_by_its_own_name(package):
    by_name = import_module(f"{package}.cli").BY_NAME
    assert {name: command.name for name, command in by_name.items()} == {
        name: name for name in by_name
    }


@pytest.mark.parametrize("name", ["adapt", "labels", "untell", "doubts", "bench", "data"])
def test_a_command_of_a_missing_package_says_what_to_install(name, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_installed_commands", lambda extra=None: {})
    assert run_main(name, "x") == 2
    extra = "bench" if name in ("bench", "data") else "label"
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert install_command(f"parbals[{extra}]") in output


def test_help_without_the_other_packages_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_installed_commands", lambda extra=None: {})
    assert run_main("--help") == 0
    output = capsys.readouterr().out
    assert install_command("parbals[label]") in output
    assert install_command("parbals[bench]") in output
    assert "doctor" in output


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["serv"], "Did you mean 'serve'"),
        (["labels", "reviw"], "Did you mean 'review'"),
        (["bench", "data", "fecth"], "Did you mean 'fetch'"),
        (["backup", "restor", "b.zip", "p"], "Did you mean 'restore'"),
        (["serve", "--portt", "1"], r"--port\b"),
        (["next", "--n", "5"], r"No such option '--n'\. Did you mean '-n'"),
        (["next", "--n=5"], "Did you mean '-n'"),
        (["next", "--agian", "1"], r"--again\b"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(arguments, suggestion, capsys):
    """The lowest click that is allowed puts no quotes around options."""
    assert run_main(*arguments) == 2
    assert re.search(suggestion, capsys.readouterr().err)


def test_version(capsys):
    assert run_main("--version") == 0
    assert capsys.readouterr().out == f"parbals {__version__}\n"


def test_help_does_not_import_the_numerical_core():
    code = (
        "import sys, parbals.cli.main\n"
        "try: parbals.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_a_command_of_projects_does_not_load_the_experiment():
    code = (
        "import sys, parbals.cli.main\n"
        "try: parbals.cli.main.main(['status', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('parbals_bench' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "arguments", [["nope"], ["demo", "--seeds", "0"], ["demo", "--batch-size", "many"]]
)
def test_wrong_usage_is_refused(arguments, capsys):
    assert run_main(*arguments) == 2
    assert "Error" in capsys.readouterr().err


def test_our_errors_are_one_sentence_on_stderr(monkeypatch, tmp_path, capsys):
    def refuse(*args, **kwargs):
        raise InputError("the pool is too small; ask for fewer rounds.")

    monkeypatch.setattr(parbals_bench.demo.story, "make_demo", refuse)
    assert run_main("demo", "--out", str(tmp_path)) == 2
    assert capsys.readouterr().err == "parbals: the pool is too small; ask for fewer rounds.\n"


def test_other_errors_keep_their_traceback(monkeypatch, tmp_path):
    def break_down(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr(parbals_bench.demo.story, "make_demo", break_down)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["demo", "--out", str(tmp_path)])


def test_an_interrupt_leaves_nothing_half_written(monkeypatch, tmp_path, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(parbals_bench.demo.story, "run_demo", interrupt)
    assert run_main("demo", "--out", str(tmp_path)) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        parbals_bench.demo.story, "run_demo", lambda *args: pytest.fail("the work was begun")
    )
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    assert run_main("demo", "--out", str(taken)) == 2
    assert f"Cannot write into {taken}" in capsys.readouterr().err
    assert taken.read_text() == "a file, not a folder"


@pytest.mark.parametrize(
    ("name", "code_of_end"), [("SIGINT", 130), pytest.param("SIGTERM", 143, marks=pytest.mark.full)]
)
def test_a_signal_inside_a_callback_of_the_garbage_collector_ends_the_command(name, code_of_end):
    code = (
        "import gc, os, signal, sys, time\n"
        "from parbals.cli import main as cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell ignores it behind &
        "def press(phase, info):\n"
        "    gc.callbacks.remove(press)\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "    for _ in range(1000): pass\n"
        "@cli.parbals.command()\n"
        "def work():\n"
        "    gc.callbacks.append(press)\n"
        "    gc.collect()\n"
        "    time.sleep(20)\n"
        "    print('went on')\n"
        "sys.argv = ['parbals', 'work']\n"
        "cli.program()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == code_of_end, (process.stdout, process.stderr)
    assert process.stdout == ""
    assert process.stderr.strip() == (
        "parbals: interrupted; what is printed above as done is stored, and nothing was left "
        "half-written."
    )


class TestEveryCommand:
    def test_commands_that_need_no_model_load_nothing_heavy(self, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        (tmp_path / "d.csv").write_text("a,b\n1,2\n3,5\n")
        looks = [
            ["--help"],
            ["next", "--help"],
            ["init", "p", "d.csv", "--features", "a,b", "--classes", "x,y"],
            ["status", str(project)],
            ["tell", str(project), "b.csv", "--no-report"],
            ["export", str(project)],
            ["edit", str(project), "--add-class", "neither"],
            ["labels", "history", str(project)],
        ]
        code = f"""
import sys
from parbals.cli.main import main
for arguments in {looks}:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
    loaded = {{"jax", "sklearn", "scipy", "matplotlib", "pandas"}} & sys.modules.keys()
    assert not loaded, (arguments, loaded)
"""
        command = [sys.executable, "-c", code]
        process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert process.returncode == 0, process.stderr

    @pytest.mark.parametrize(
        "command",
        [
            *("init", "embed", "edit", "add", "labels history", "next", "tell", "status", "export"),
            *("backup salvage", "certify", "estimate"),
        ],
    )
    def test_every_command_explains_itself_with_an_example(self, run, command):
        text = run(*command.split(), "--help")
        assert "Example" in text
        assert "--json" in text

    def test_a_missing_project_is_exit_code_3(self, tmp_path, capsys):
        assert run_main("status", str(tmp_path / "none")) == 3
        output = capsys.readouterr().err
        assert output.startswith("parbals: ")
        assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize("value", [None, "true"])
def test_a_command_leaves_gpu_memory_to_pytorch_unless_the_user_says_otherwise(value):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    program = (
        "import atexit, os, sys\n"
        f"atexit.register(lambda: print(os.environ[{name!r}]))\n"
        "sys.argv = ['parbals', '--version']\n"
        "from parbals.cli import program\n"
        "program()\n"
    )
    environment = {key: text for key, text in os.environ.items() if key != name}
    if value is not None:
        environment[name] = value
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == (value or "false")
