"""How often does each statement that parbals makes with a probability fail?

    python studies error_estimates.promises --quick         # one set, printed and not recorded
    python studies error_estimates.promises --data ROWS --folder FOLDER --workers 16
    python studies error_estimates.promises --tables        # write docs/explanation/coverage.md

A run is a session of asking and telling by a strategy (:mod:`error_estimates.promises.session`):
50 items of an audit and 250 other labels, with the default model, with a random forest as a model
of one's own, or on texts with an encoder that is fine-tuned twice. ROWS is what ``studies
lib.rows`` wrote, FOLDER what ``studies error_estimates.promises.texts`` wrote. Each run is a line
of record.jsonl.xz, so an interrupted study resumes.
"""

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

from error_estimates.promises.page import page
from error_estimates.promises.session import play
from error_estimates.promises.sets import MODELS, ROWS, STRATEGIES, TEXTS
from lib.folders import EXPLANATION
from lib.records import Todo, study

HERE = Path(__file__).parent


def main() -> int:
    if "--quick" in sys.argv:
        sys.argv.remove("--quick")
        sys.argv += ["--only", "digits:*", "--models", "default", "--strategies", "random,margin"]
        sys.argv += ["--seeds", "1", "--out", tempfile.mkdtemp()]
    options = {
        "folder": ".",
        "only": ",".join((*ROWS, *TEXTS)),
        "models": ",".join(MODELS),
        "strategies": ",".join(STRATEGIES),
        "first": 0,
    }
    records = HERE / "record.jsonl.xz"
    return study(
        __doc__, records, EXPLANATION / "coverage.md", runs, page, seeds=10, options=options
    )


def runs(arguments: Namespace) -> Iterator[Todo]:
    """All runs, a seed after the other, so that an interrupted study has all kinds of them."""
    folder = Path(arguments.folder).resolve()
    names = arguments.only.split(",")
    for name in names:
        if name not in ROWS and name not in TEXTS:
            raise ValueError(f"there is no dataset {name!r}; choose some of {*ROWS, *TEXTS}")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    kinds = product(seeds, arguments.models.split(","), names, arguments.strategies.split(","))
    for seed, model, data, strategy in kinds:
        if model == "adapted" and data not in TEXTS:
            continue
        name = (data, model, strategy, seed)
        yield name, partial(play, data, model, strategy, seed, folder)
