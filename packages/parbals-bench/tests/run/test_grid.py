"""Suites from TOML, and folders of results that survive whatever happens to them."""

import pytest
from bench_helpers import TINY_SUITE, Canned, InProcess, load_tiny, record_of, runs_of
from parbals.errors import InputError
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import load_suite, read_suite, run_grid
from parbals_bench.run.loading import load_data
from parbals_bench.run.records import read_line, write_line
from parbals_bench.run.spec import Budget, Run, Settings
from repository import ROOT


def lines_of(folder):
    return {path.name: path.read_bytes() for path in folder.runs.glob("*.jsonl")}


GRID = "[[grid]]\ndatasets = ['a']\nbudgets = ['1+1x1']\nstrategies = ['epig']\n"


@pytest.fixture
def suite():
    return read_suite(TINY_SUITE)


@pytest.fixture
def filled(tmp_path, suite):
    folder = ResultsFolder(tmp_path / "results")
    folder.save_suite(suite.text)
    assert run_grid(suite.runs, folder, load_tiny, Canned()) == []
    return folder


class TestSuites:
    def test_the_paper_suite_is_the_papers(self):
        runs = load_suite("paper").runs
        main = [
            r
            for r in runs
            if str(r.budget) == "100+10x20" and r.positive is None and r.settings == Settings()
        ]
        assert len({r.dataset for r in main}) == 8
        assert len(main) == 8 * 16 * 10
        assert {str(r.budget) for r in runs if r.strategy == "batchbald"} == {"100+10x10"}
        assert {r.settings.n_universes for r in runs} == {5, 10, 20}
        assert len({r.key for r in runs}) == len(runs)

    def test_every_strategy_of_a_built_in_suite_exists(self):
        from parbals.strategies.table import strategy_named

        for name in {
            run.strategy for suite in ("paper", "quick") for run in load_suite(suite).runs
        }:
            strategy_named(name)

    def test_the_quick_suite_needs_no_files(self):
        suite = load_suite("quick")
        assert len(suite.runs) == 2 * 5 * 3
        for reference in {run.reference for run in suite.runs}:
            data = load_data(reference)
            assert len(data.X_pool) > max(run.budget.total for run in suite.runs)
            assert set(data.y_pool) == {0, 1}

    def test_the_suite_that_the_documentation_explains(self):
        page = (ROOT / "docs" / "howto" / "experiments.md").read_text("utf-8")
        suite = read_suite(page.split("```toml")[1].split("```")[0])
        assert set(suite.data) == {"tickets", "airline-values"}
        assert len(suite.runs) == 4 * 2 * 4 * 10 + 2 * 5

    def test_the_posterior_can_be_swept_and_particles_keep_their_keys(self):
        """Records from before there was a choice belong to the runs with particles."""
        grid = '[[grid]]\ndatasets="d"\nbudgets="1+1x1"\nstrategies="epig"\nseeds=1\n'
        particles, gaussian = read_suite(grid + 'inference=["smc", "ep"]').runs
        (before,) = read_suite(grid).runs
        assert before.key == particles.key != gaussian.key
        assert "inference" not in before.as_dict()["settings"]
        assert Run.from_dict(gaussian.as_dict()) == gaussian
        assert gaussian.variant(before.settings) == "inference = ep"
        assert particles.values_of(["inference = ep"]) == "inference = smc"

    def test_the_prior_can_be_swept_and_the_papers_keeps_its_keys(self):
        grid = '[[grid]]\ndatasets="d"\nbudgets="1+1x1"\nstrategies="epig"\nseeds=1\n'
        (before,) = read_suite(grid).runs
        given, learnt = read_suite(grid + 'prior_scale=[1.0, "auto"]').runs
        assert before.key == given.key != learnt.key
        assert Run.from_dict(learnt.as_dict()) == learnt
        assert learnt.variant(before.settings) == "prior scale = auto"
        with pytest.raises(InputError, match="prior_scale is 'wide'"):
            read_suite(grid + 'prior_scale="wide"')

    def test_sweeps_multiply_and_the_same_run_counts_once(self):
        grid = '[[grid]]\ndatasets="d:x"\nbudgets="1+1x1"\nstrategies="epig"\nseeds=[3]\n'
        suite = read_suite(
            grid + "n_samples=[100, 200]\noptions=[{}, {beta=2.0}]\n" + grid + "n_samples=100\n"
        )
        assert sorted((r.settings.n_samples, dict(r.options) != {}) for r in suite.runs) == [
            (100, False),
            (100, True),
            (200, False),
            (200, True),
        ]
        assert {(r.dataset, r.positive, r.seed) for r in suite.runs} == {("d", "x", 3)}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("grid = [", "not valid TOML"),
            ("name = 'x'", r"no \[\[grid\]\]"),
            ("[[grid]]\nseed = 3", "unknown name 'seed'"),
            (
                "[[grid]]\ndatasets = ['a']\nbudgets = ['1+1x1']\nstrategies = ['epig']",
                "seeds is None",
            ),
            (
                "[[grid]]\ndatasets=['a']\nbudgets=['1x1']\nstrategies=['epig']\nseeds=1",
                "is not a budget",
            ),
            ("[settings]\nn_samples = -1", "n_samples is -1"),
            ("[settings]\nsamples = 1", "unknown name 'samples'"),
            ("[settings]\ninference = 'magic'", "inference is 'magic'; choose one of: smc"),
            (GRID + "seeds = 3.5", r"seeds is 3\.5; write how many"),
            (GRID + "seeds = true", "seeds is True"),
            (GRID + "seeds = -1", "seeds is -1"),
            (GRID + "seeds = [0, 'x']", "seeds is"),
            (GRID + "seeds = 1\nn_universes = []", "n_universes must be a value or a list"),
            (GRID + "seeds = 1\noptions = 'x'", "options must be a table"),
            (
                "[[grid]]\ndatasets=[1]\nbudgets=['1+1x1']\nstrategies=['epig']\nseeds=1",
                "datasets must be names in",
            ),
            (
                "[data]\nmine = 'a.csv'\n" + GRID + "seeds = 1",
                r"\[data.mine\] of mine.toml must be a table",
            ),
            ("[data.mine]\nfile = 'a.csv'\n" + GRID + "seeds = 1", "unknown name 'file'"),
            ("[data.mine]\npath = 3\n" + GRID + "seeds = 1", "path must be in quotes"),
            ("[data.'mine:x']\npath = 'a.csv'\n" + GRID + "seeds = 1", "may have only letters"),
        ],
    )
    def test_mistakes_are_refused_in_one_sentence(self, text, message):
        with pytest.raises(InputError, match=message):
            read_suite(text, "mine.toml")

    def test_filters_restrict_and_misspelt_ones_are_refused(self, suite):
        assert len(suite.only(strategies=["random"], seeds=2)) == 2
        assert suite.only() == suite.runs
        listed = read_suite(GRID + "seeds = [7, 5, 9]")
        assert [run.seed for run in listed.only(seeds=2)] == [
            5,
            7,
        ]  # the first two that there are, not 0 and 1
        with pytest.raises(InputError, match="no dataset 'breast'; it has breast-cancer"):
            suite.only(datasets=["breast"])


class TestKeys:
    def test_a_key_never_changes(self):
        """Results of last year must be recognised: if this fails, every stored grid would be
        computed again."""
        run = Run("airline", Budget(100, 10, 20), "epig", 3, "x", {"beta": 2.0})
        assert run.key == "4a9de1ca6ddba0993a2adc2a77f6c96c"
        assert run.cell.startswith("airline_x_100+10x20_epig_")

    def test_everything_that_decides_the_result_is_in_the_key(self):
        (base,) = runs_of(seeds=[0])
        others = [
            *runs_of(seeds=[1]),
            *runs_of("yelp", seeds=[0]),
            *runs_of(budget="20+10x20", seeds=[0]),
            *runs_of(strategy="bald", seeds=[0]),
            *runs_of(seeds=[0], positive="x"),
            *runs_of(seeds=[0], options={"beta": 2.0}),
            *runs_of(seeds=[0], settings=Settings(n_samples=100)),
        ]
        assert len({run.key for run in [base, *others]}) == len(others) + 1
        assert len({run.cell for run in [base, *others]}) == len(others)  # seeds share a file


class TestResuming:
    def test_a_finished_grid_computes_nothing(self, filled, suite):
        again = Canned()
        assert run_grid(suite.runs, filled, load_tiny, again) == []
        assert again.computed == []

    def test_only_missing_runs_are_computed(self, tmp_path, suite):
        folder = ResultsFolder(tmp_path)
        run_grid(suite.runs[:4], folder, load_tiny, Canned())
        rest = Canned()
        run_grid(suite.runs, folder, load_tiny, rest)
        assert rest.computed == list(suite.runs[4:])

    def test_a_line_cut_anywhere_is_noticed_and_computed_again(self, filled, suite):
        """A process killed while writing leaves any beginning of a line; each must heal to the same
        file."""
        whole = lines_of(filled)
        name = sorted(whole)[0]
        last = whole[name].rstrip(b"\n").rfind(b"\n") + 1
        for cut in [*range(last + 1, len(whole[name]), 97), len(whole[name]) - 2]:
            (filled.runs / name).write_bytes(whole[name][:cut])
            records, damages = filled.read()
            assert (len(records), len(damages)) == (len(suite.runs) - 1, 1)
            healer = Canned()
            run_grid(suite.runs, filled, load_tiny, healer)
            assert len(healer.computed) == 1
            assert lines_of(filled) == whole
            assert filled.read()[1] == []

    def test_only_the_end_of_the_line_is_missing(self, filled, suite):
        whole = lines_of(filled)
        name = sorted(whole)[0]
        (filled.runs / name).write_bytes(whole[name][:-1])
        healer = Canned()
        run_grid(suite.runs, filled, load_tiny, healer)
        assert healer.computed == []
        assert lines_of(filled) == whole

    def test_a_changed_digit_is_noticed(self, filled, suite):
        path = sorted(filled.runs.glob("*.jsonl"))[0]
        path.write_text(path.read_text().replace("0.9", "0.8", 1))
        assert "line 1" in str(filled.read()[1][0])
        healer = Canned()
        run_grid(suite.runs, filled, load_tiny, healer)
        assert len(healer.computed) == 1
        records, damages = filled.read()
        assert (len(records), damages) == (len(suite.runs), [])

    def test_data_that_changed_in_between_are_not_mixed_in(self, tmp_path, suite):
        """The name of a dataset stays when its files or its features change."""
        folder = ResultsFolder(tmp_path)
        run_grid(suite.runs[:4], folder, load_tiny, Canned())
        before = lines_of(folder)
        failures = run_grid(suite.runs, folder, load_tiny, Canned(data="other"))
        assert len(failures) == len(suite.runs) - 4
        assert "breast-cancer is not the same data" in failures[0].error
        assert lines_of(folder) == before

    def test_two_processes_cannot_write_at_once(self, filled, suite):
        with filled.writing(), pytest.raises(InputError, match="Another process is writing"):
            run_grid(suite.runs, filled, load_tiny, Canned())

    def test_a_folder_without_results_says_so(self, tmp_path):
        with pytest.raises(InputError, match="holds no results"):
            ResultsFolder(tmp_path).suite_text()


class TestFailures:
    def test_a_dataset_that_is_missing_is_asked_for_once_and_others_go_on(self, tmp_path):
        calls = []

        def loader(reference):
            calls.append(reference)
            raise InputError("download it")

        runs = runs_of("nowhere", seeds=range(4))
        failures = run_grid(runs, ResultsFolder(tmp_path), loader, InProcess())
        assert calls == ["nowhere"]
        assert {failure.error for failure in failures} == {"nowhere cannot be loaded: download it"}

    def test_a_run_that_fails_is_reported_and_tried_again_next_time(self, tmp_path, data):
        runs = runs_of("tiny", "50+9x9", "random", seeds=[0])
        for _ in range(2):
            (failure,) = run_grid(
                runs, ResultsFolder(tmp_path), lambda reference: data, InProcess()
            )
            assert "131 labels" in failure.error


def test_progress_counts_what_is_done_and_what_failed(tmp_path, suite):
    calls = []
    run_grid(suite.runs[:2], ResultsFolder(tmp_path), load_tiny, Canned())
    run_grid(
        suite.runs[:4],
        ResultsFolder(tmp_path),
        load_tiny,
        Canned(data="other"),
        lambda *progress: calls.append(progress),
    )
    assert [part[:3] for part in calls] == [("runs", 2, 4)] * 3
    assert calls[-1][3].endswith(" · 2 failed")


def test_damaged_and_foreign_lines_are_refused():
    line = write_line(record_of(runs_of()[0]))
    assert read_line(line).run == runs_of()[0]
    for broken in ("", "{}", line[:-1], line.replace("epig", "bald"), line + "x"):
        with pytest.raises(InputError, match="damaged"):
            read_line(broken)
