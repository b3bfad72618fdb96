"""How often does each statement fail in made sessions that were chosen to break it?

    python studies error_estimates.statements --workers 16   # run what is missing
    python studies error_estimates.statements --tables       # write README.md from the record

A run is a cell of a statement (:mod:`error_estimates.statements.streams`): how many of its sessions
fail. The table is also part of docs/explanation/coverage.md, which ``error_estimates.promises
--tables`` writes. Further runs compare the limits in use with others
(:mod:`error_estimates.statements.candidates`).
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from error_estimates.statements.candidates import candidate_limits
from error_estimates.statements.page import page
from error_estimates.statements.streams import DELTA, STATEMENTS, predicted_pool
from lib.records import Record, Todo, study

HERE = Path(__file__).parent
N_SESSIONS = 1_000
FULL_DELTA = 0.035
"""The probability that a limit at a full kept sample fails."""


def main() -> int:
    return study(
        __doc__, HERE / "record.jsonl", HERE / "README.md", runs, page, seeds=1, options={}
    )


def runs(given: Namespace) -> Iterator[Todo]:
    """Every statement and cell, and every cell of the comparison."""
    for seed in range(given.seeds):
        for key, statement in STATEMENTS.items():
            for number in range(len(statement.cells)):
                yield ("statement", key, number, seed), partial(one_cell, key, number, seed)
        for number in range(len(comparison_cells())):
            yield ("candidates", "", number, seed), partial(one_comparison, number, seed)


def one_cell(key: str, number: int, seed: int) -> Record:
    """Failures of a statement in a cell."""
    statement = STATEMENTS[key]
    generator = np.random.default_rng([seed, number, len(key)])
    outcome = statement.stream(statement.cells[number], N_SESSIONS, generator)
    fails = outcome.high if statement.upper_alone else outcome.low | outcome.high
    return {
        "cell": list(statement.cells[number]),
        "sessions": N_SESSIONS,
        "failed": int(fails.sum()),
        "width": None if np.isnan(outcome.width) else round(outcome.width, 4),
    }


def comparison_cells() -> list[tuple[Any, ...]]:
    """Cells of `estimate`, and of the errors that a kept sample counts, at one look."""
    shares = [
        cell
        for cell in STATEMENTS["share"].cells
        if cell[0] != "useless" and cell[1:3] == (5_000, 0.06)
    ]
    kept = [cell for cell in STATEMENTS["kept"].cells if cell[1] == 2_000]
    errors = [("errors", n_items, share, part, size) for size, n_items, share, part in kept]
    return [*shares, *errors]


def one_comparison(number: int, seed: int) -> Record:
    """Failures and widths of every candidate in a cell; errors at a full kept sample's risk."""
    cell = comparison_cells()[number]
    kind, n_items, share, mistakes, n = cell
    generator = np.random.default_rng([seed, number])
    values, predictions = predicted_pool(kind, n_items, share, mistakes, generator)
    order = np.array([generator.choice(n_items, n, replace=False) for _ in range(N_SESSIONS)])
    delta = FULL_DELTA if kind == "errors" else DELTA
    limits = candidate_limits(values[order], predictions[order], predictions, delta)
    truth = values.mean()
    rows = {
        name: [int((low > truth).sum()), int((high < truth).sum()), float((high - low).mean())]
        for name, (low, high) in limits.items()
    }
    return {"cell": list(cell), "delta": delta, "sessions": N_SESSIONS, "candidates": rows}
