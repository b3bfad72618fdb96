"""`parbals next` and `tell`: whole rounds on a small project."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from message_data import truth
from message_projects import ROLES, fill
from parbals.errors import InputError, LabelError
from parbals.strategies.table import DEFAULT_STRATEGY
from parbals_label.store.store import Store

SAYS_WHEN_IT_CHOOSES = """
from parbals.cli import program
from parbals_label.project import choose
choose_batch = choose.choose_batch
def say_and_choose(*arguments, **options):
    print("choosing", flush=True)
    return choose_batch(*arguments, **options)
choose.choose_batch = say_and_choose
program()
"""


class TestRound:
    def test_next_fill_in_tell_status_export(self, run, project, tmp_path):
        with Store.open(project) as store:
            store.update_settings(strategy="parbals-epig")
        run("next", project, "-n", "6", "--out", "batch.csv")
        chosen = fill(tmp_path / "batch.csv")
        output = run("tell", project, "batch.csv")
        assert output.startswith("6 new labels")
        assert "expected error" in output
        status = run("status", project)
        assert "12 of 60 items labelled (20 %), 0 assigned\n" in status
        assert "90 % interval" in status
        for words in ("nats", "parbals-epig", "ou can stop"):
            assert words not in output + status
        more = json.loads(run("status", project, "--json"))
        assert (more["batches"], more["strategy"]) == (1, "parbals-epig")
        assert more["chosen_by"] == {"": 6, "parbals-epig": 6}
        run("export", project, "--out", "out.csv")
        with open(tmp_path / "out.csv", newline="", encoding="utf-8-sig") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        assert len(rows) == 60
        assert {i for i, row in rows.items() if ":1" in row["votes"]} == {
            f"{i:03d}" for i in range(6)
        } | set(chosen)
        copies = {i for i, row in rows.items() if row["label"] and not row["votes"]}
        assert copies <= {"049", "056"}, "messages that repeat others have their labels"
        for row in rows.values():
            assert float(row["p_ham"]) + float(row["p_spam"]) == pytest.approx(1.0, abs=1e-4)
        right = [
            (float(row["p_spam"]) > 0.5) == (truth(int(i)) == "spam") for i, row in rows.items()
        ]
        assert np.mean(right) > 0.85

    def test_two_open_batches_have_no_item_in_common(self, run, project, tmp_path):
        first = json.loads(run("next", project, "-n", "5", "--json"))["ids"]
        second = json.loads(run("next", project, "-n", "5", "--json"))["ids"]
        assert not set(first) & set(second)
        assert json.loads(run("status", project, "--json"))["pending"] == 10

    def test_the_same_project_gives_the_same_batch(self, run, project, messages, tmp_path):
        run("init", "twin", messages, *ROLES, "--strategy", "margin")
        batches = [
            json.loads(run("next", name, "-n", "5", "--json"))["ids"] for name in ("spam", "twin")
        ]
        assert batches[0] == batches[1]

    def test_a_lost_batch_file_is_written_again(self, run, project, tmp_path):
        ids = json.loads(run("next", project, "-n", "4", "--out", "a.csv", "--json"))["ids"]
        (tmp_path / "a.csv").unlink()
        assert json.loads(run("next", project, "--again", "1", "--json"))["ids"] == ids
        assert "no batch 9" in str(run("next", project, "--again", "9", fails=True).exception)

    def test_partly_filled_reordered_with_extra_columns_and_ids_a_spreadsheet_shortened(
        self, run, project, tmp_path
    ):
        (tmp_path / "b.csv").write_text("note;label;id\nsure;HAM;7\n?;;8\nok;spam ;009\n")
        assert run("tell", project, "b.csv", "--no-report").startswith("2 new labels")
        with Store.open(project, read_only=True) as store:
            assert store.current_labels()[7] == {"me": "ham"}
            assert store.current_labels()[9] == {"me": "spam"}

    def test_a_batch_that_nobody_filled_in_is_named(self, run, project):
        run("next", project, "-n", "3", "--out", "b.csv")
        said = run("tell", project, "b.csv")
        assert said.startswith("No labels: the column `label` of b.csv is empty; fill it in (ham,")

    @pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    def test_a_program_may_leave_the_byte_order_mark_in_a_batch(self, run, tmp_path, quoting):
        """Every batch has one, because Excel needs it where letters are beyond ASCII."""
        (tmp_path / "dishes.csv").write_text("dish\nŻurek\nBorschtsch\nKäse\nReis\n", "utf-8")
        run("init", "dishes", "dishes.csv", "--text", "dish", "--classes", "ham,spam")
        run("next", "dishes", "-n", "3", "--out", "b.csv")
        with open(tmp_path / "b.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert "\ufeffid" in rows[0]
        with open(tmp_path / "c.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), quoting=quoting)
            writer.writeheader()
            writer.writerows(row | {"label": "ham"} for row in rows)
        assert run("tell", "dishes", "c.csv", "--no-report").startswith("3 new labels")

    def test_one_wrong_row_stores_nothing(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n007,ham\n008,eggs\n")
        result = run("tell", project, "b.csv", fails=True)
        assert "row 3" in str(result.exception)
        (tmp_path / "b.csv").write_text("id,label\n007,ham\n777,ham\n")
        result = run("tell", project, "b.csv", fails=True)
        assert isinstance(result.exception, InputError)
        assert "row 3: the id '777' names no item" in str(result.exception)
        with Store.open(project, read_only=True) as store:
            assert store.n_labelled == 6

    def test_another_label_needs_revise(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv", "--no-report")
        assert "1 known already" in run("tell", project, "b.csv", "--no-report")
        (tmp_path / "b.csv").write_text("id,label\n010,spam\n")
        assert isinstance(run("tell", project, "b.csv", fails=True).exception, LabelError)
        assert "1 revised" in run("tell", project, "b.csv", "--revise", "--no-report")
        with Store.open(project, read_only=True) as store:
            assert [answer.label for answer in store.history(10)] == ["ham", "spam"]

    def test_every_remedy_in_a_message_can_be_typed(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv", "--no-report")
        (tmp_path / "b.csv").write_text("id,label\n010,spam\n")
        assert "--revise" in str(run("tell", project, "b.csv", fails=True).exception)
        said = str(run("next", project, "-n", "1000", fails=True).exception)
        assert "1000 items were requested and 51 are available" in said
        assert (
            "request fewer (-n), or first return the labels of the assigned items (parbals tell)"
            in said
        )
        next(project.glob("features-*.npy")).unlink()
        said = str(run("next", project, fails=True).exception)
        assert f"run `parbals embed {project} --encoder words`" in said
        run("embed", project, "--encoder", "words")
        run("next", project, "-n", "2")

    def test_repeated_labels_update_an_outdated_report(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv")
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n011,ham\n")
        run("tell", project, "b.csv", "--no-report")
        assert "expected error" in run("tell", project, "b.csv")
        assert "expected error" not in run("tell", project, "b.csv")


class TestProcesses:
    def test_choosing_and_reporting_load_no_model_library(self, project, tmp_path):
        """On a CPU; with samples, averages and in closed form."""
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        folder, commands = str(project), [["tell", str(project), "b.csv"]]
        for strategy in (
            DEFAULT_STRATEGY,
            "epig",
            "bald",
            "power-bald",
            "confidence",
            "margin",
            "entropy",
        ):
            commands += [["edit", folder, "--strategy", strategy], ["next", folder, "-n", "1"]]
        code = f"""
import sys
from parbals.cli.main import main
for arguments in {commands}:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
heavy = {{"jax", "sklearn", "scipy.stats", "matplotlib", "pandas"}} & sys.modules.keys()
assert not heavy, heavy
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize(
        ("arguments", "more"),
        [
            (
                ["status"],
                [
                    "numpy.random",
                    "parbals.learner.active",
                    "secrets",
                    "importlib.resources",
                    "parbals_label.cli.batch",
                ],
            ),
            (["next", "-n", "2"], []),
            (["tell", "b.csv"], []),
        ],
    )
    def test_a_short_command_loads_only_what_it_uses(self, project, tmp_path, arguments, more):
        """Most of its time is loading: SciPy or Pydantic alone would double that of `status`."""
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        unused = [
            "scipy",
            "sklearn",
            "pydantic",
            "fastapi",
            "asyncio",
            "pandas",
            "jax",
            "jaxtyping",
        ]
        unused += ["importlib.metadata", "parbals_label.cli.project", *more]
        code = f"""
import sys
from parbals.cli.main import main
try:
    main([{arguments[0]!r}, {str(project)!r}, *{arguments[1:]}])
except SystemExit as ended:
    assert not ended.code
loaded = sys.modules.keys() & set({unused})
assert not loaded, loaded
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.full
    def test_four_processes_at_once_get_different_items(self, project, tmp_path):
        environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path / "xla")}
        command = [sys.executable, "-m", "parbals", "next", str(project), "-n", "3", "--json"]
        processes = [
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        ended = [(*process.communicate(timeout=300), process.returncode) for process in processes]
        assert [code for _, _, code in ended] == [0] * 4, ended
        records = [json.loads(output) for output, _, _ in ended]
        assert sorted(record["batch"] for record in records) == [1, 2, 3, 4]
        assert len({name for record in records for name in record["ids"]}) == 12
        for record in records:
            with open(
                project / f"batch-{record['batch']}.csv", newline="", encoding="utf-8-sig"
            ) as file:
                assert [row["id"] for row in csv.DictReader(file)] == record["ids"]

    @pytest.mark.full
    def test_ctrl_c_while_choosing_leaves_the_project_whole(self, project):
        command = [sys.executable, "-c", SAYS_WHEN_IT_CHOOSES, "next", str(project), "-n", "20"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "choosing\n"
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        # A program that was about to end may die of the signal, which a shell calls 130 as well.
        assert process.returncode in (0, 130, -signal.SIGINT), errors
        with Store.open(project, read_only=True) as store:
            assert store.check() == []
            assert len(store.pending()) in (0, 20)
