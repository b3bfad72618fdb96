"""What studies compare with: a sampler of many posteriors, Cluster-Margin."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from repository import ROOT, SOURCES

ROOT_TWO = np.sqrt(2.0)


@pytest.fixture
def studies(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "studies")


def moments(X, signs, mode, factor, generator):
    """Mean and deviation of weights (d,), by importance sampling around the whitened mode."""
    z = 1.3 * generator.standard_normal((200_000, X.shape[1]))
    v = mode + z @ factor.T
    log_likelihood = -(np.abs(signs) * np.logaddexp(0.0, -signs * ROOT_TWO * (v @ X.T))).sum(axis=1)
    log_ratio = log_likelihood - 0.5 * (v**2).sum(axis=1) + 0.5 * (z**2).sum(axis=1) / 1.3**2
    ratio = np.exp(log_ratio - log_ratio.max())
    ratio /= ratio.sum()
    mean = ratio @ v
    return mean, np.sqrt(ratio @ (v - mean) ** 2)


@pytest.mark.full
def test_chains_of_one_program_sample_each_posterior(studies):
    import jax
    from lib.many_nuts import draw_many, whitening

    generator = np.random.default_rng(0)
    X = generator.standard_normal((2, 30, 4))
    labels = np.where(generator.random((2, 30)) < 0.5, -1.0, 1.0)
    signs = np.repeat(labels[:, None], 3, axis=1)
    signs[:, 1, :8] *= -1.0  # other labels
    signs[:, 2, 20:] = 0.0  # fewer rows
    X = X.astype(np.float32)
    signs = signs.astype(np.float32)
    mode, factor = whitening(X, signs[:, 0])
    weights, n_steps, share_cut = draw_many(
        jax.random.key(1), X, signs, mode, factor, n_draws=1_500
    )
    weights = np.asarray(weights)
    assert weights.shape == (2, 3, 4, 6_000)
    assert 1.0 < n_steps < 16.0
    assert share_cut == 0.0
    for seed, universe in np.ndindex(2, 3):
        own = whitening(X[[seed]], signs[[seed], universe])
        mode, factor = (np.asarray(array)[0] for array in own)
        mean, deviation = moments(X[seed], signs[seed, universe], mode, factor, generator)
        draws = weights[seed, universe]
        np.testing.assert_allclose((draws.mean(axis=1) - mean) / deviation, 0.0, atol=0.1)
        np.testing.assert_allclose(draws.std(axis=1) / deviation, 1.0, atol=0.07)


def test_cluster_margin_takes_one_of_each_cluster_in_turn(studies):
    from strategies.large_batches.run import _cluster_margin

    clusters = np.repeat(np.arange(1, 31), 4)  # of four rows each
    p = np.where(clusters <= 11, 0.5, 0.9)
    probs = np.stack([1.0 - p, p], axis=1)
    labelled = np.flatnonzero(clusters == 1)
    batch = _cluster_margin(probs, clusters, labelled, 4, np.random.default_rng(0))
    assert len(set(clusters[batch]) & set(range(2, 12))) == 4
    longer = _cluster_margin(probs, clusters, labelled, 45, np.random.default_rng(0))
    assert len(set(longer.tolist())) == 45
    turns = [len(set(clusters[longer][:n].tolist())) for n in range(1, 46)]
    assert all(a <= b for a, b in pairwise(turns))
    assert not set(longer.tolist()) & set(labelled.tolist())


@pytest.mark.full
def test_seeds_in_step_go_on_after_the_last_whole_round(studies, tmp_path):
    pytest.importorskip("blackjax", reason="JAX is needed")
    generator = np.random.default_rng(0)
    X = generator.random((900, 6)) < 0.5
    y = (X[:, 0] ^ (generator.random(900) < 0.1)).astype(np.int8)
    bits = np.packbits(X, axis=1)
    folder = tmp_path / "tables"
    folder.mkdir()
    np.savez(
        folder / "airline.npz",
        X_pool=bits[:500],
        X_target_source=bits[500:700],
        X_test=bits[700:],
        y_pool=y[:500],
        y_test=y[700:],
        n_columns=6,
        digest="0",
        notes=np.array([]),
    )

    def records(out, *options):
        command = [sys.executable, "studies", "paper.differences.nuts", "--folder", str(folder)]
        command += ["--out", str(out), "--seeds", "2", "--universes", "2", "--budget", "20+2x3"]
        command += ["--strategies", "parbals-epig", "--candidates", "100", *options]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        lines = (out / "airline.parbals-epig.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    whole = records(tmp_path / "whole")
    stopped = records(tmp_path / "resumed", "--seconds", "1")
    assert [len(record["chosen"]) for record in stopped] == [1, 1]
    resumed = records(tmp_path / "resumed")
    for record, again in zip(whole, resumed, strict=True):
        assert again["chosen"] == record["chosen"]
        assert again["metrics"] == record["metrics"]
        batch = record["chosen"][0] + record["chosen"][1]
        assert len(set(batch)) == 6
        assert not set(batch) & set(record["initial"])
        assert record["metrics"]["accuracy"][-1] > 0.7


def cells_of(line):
    """The cells of a table's row."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.full
def test_the_first_screen_has_the_figures_of_the_records(studies):
    from adaptation.encoder import strategies
    from paper.results import first_screen
    from strategies.large_batches import run

    results = (ROOT / "docs/explanation/results.md").read_text("utf-8")
    quoted = {cells[0]: cells[1:] for cells in map(cells_of, results.splitlines())}
    page = list(
        first_screen.lines(run.FOLDER / "record.jsonl", run.page, ("## B", "| none", "| 50 % j"))
    )
    size = 0
    n_checked = 0
    for line in page:
        cells = cells_of(line)
        if line.startswith("## "):
            size = int(line.removeprefix("## Batches of "))
        else:
            share = "no" if cells[0] == "none" else "half of the pool"
            _, kmeans, margin, cluster_margin, badge = cells[-5:]
            row = [margin, badge, kmeans, cluster_margin]
            assert quoted[f"batches of {size}, {share} near-duplicates"] == row
            n_checked += 1
    assert n_checked == 6
    (answer,) = first_screen.lines(
        strategies.FOLDER / "strategies.jsonl", strategies.page, ("**250",)
    )
    row = quoted["250 labels chosen on fine-tuned rows"]
    assert f"Margin {row[0]}, BADGE {row[1]}, EPIG" in answer


def test_the_gains_of_fine_tuning_are_those_of_the_records(studies):
    from adaptation.encoder import strategies
    from paper.results import first_screen

    features = (ROOT / "docs/howto/features.md").read_text("utf-8")
    quoted = {tuple(cells_of(line)[1:]) for line in features.splitlines()}
    names = (*strategies.SETS, "**all**")
    rows = first_screen.lines(
        strategies.FOLDER / "strategies.jsonl",
        strategies.page,
        tuple(f"| {name} |" for name in names),
    )
    gains = [tuple(cells_of(row)[2:]) for row in rows if row.count("|") == 6]
    assert len(gains) == len(names)
    assert quoted.issuperset(gains)


def test_runs_of_another_fine_tuning_are_not_pooled(studies):
    from adaptation.encoder import strategies

    def records(error, *fine_tuning):
        scores = {str(budget): {"error": error} for budget in strategies.BUDGETS}
        runs = [("films-2", strategy, 0, *fine_tuning) for strategy in strategies.STRATEGIES]
        return [{"run": list(run), **scores} for run in runs]

    before = records(0.5)
    after = records(0.25, "another")
    assert list(strategies.page([*before, *after])) == list(strategies.page(after))
    assert list(strategies.page([*before, *after])) != list(strategies.page(before))


def test_the_table_of_all_departures_is_that_of_the_records(studies):
    from paper.differences.together import together
    from parbals_bench.run.folder import ResultsFiles

    folder = ROOT / "studies/paper/differences"
    by_bench, in_step = (
        ResultsFiles(folder / f"{name}.tar.xz").records() for name in ("departures", "nuts")
    )
    by_nuts = [record for record in by_bench if record.run.settings.inference == "nuts"]
    results = (ROOT / "docs/explanation/results-paper.md").read_text("utf-8")
    rows = [line for line in together(by_nuts, in_step) if line.count("|") == 8]
    assert len(rows) == 10
    assert all(row in results for row in rows[2:])
    assert {record.run.seed for record in in_step} == set(range(10))


def test_the_page_of_trees_says_where_the_wrong_model_is_kept(studies):
    from adaptation.trees.run import page

    plain = {"linear": 0.6, "leaves": 0.6, "product": 0.6, "trees": 0.5, "boosting": 0.7}
    records = []
    for name, seed, gain in (("rules", 0, -1.0), ("breast cancer", 0, 1.0), ("rules", 1, -1.0)):
        records.append({"run": [name, 50, seed], "errors": plain})
        adapted = {"project": 0.6, "adapted": 0.625}
        records.append({"run": [name, 50, seed, "adapted"], "errors": adapted, "gain": gain})
    text = " ".join("\n".join(page(records)).split())
    assert "| rules | 50 | 2 | 60.0 | 60.0 | 60.0 | 60.0 | 62.5 | 60.0 | 50.0 | 70.0 | 0 |" in text
    assert "err less than the model that is kept: by 10.0 points with 50 labels." in text
    assert "the wrong model is kept at times: in 1 of 1 seeds with 50 labels." in text
