"""How wide is the interval of an audit of n labels?

    python studies error_estimates.audit  # write README.md

The limits are computed, nothing is drawn: whether they hold in sessions of labelling is a question
of the study ``promises``.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parent / "README.md"
SIZES = (25, 50, 100, 200)
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    arguments = parser.parse_args()
    text = "\n".join(page()) + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


def page() -> Iterator[str]:
    """The interval by the audit's size and the share that it finds wrong."""
    yield "# How wide is the interval of an audit of n labels?"
    yield ""
    yield (
        "Written by `python studies error_estimates.audit`; do not edit. "
        "[docs/howto/measure.md](../../../docs/howto/measure.md) says what an audit is, "
        "[How often is a statement wrong?](../../../docs/explanation/coverage.md) how often its "
        "limits fail."
    )
    yield ""
    yield (
        "The 90 % interval of the full audit, whose upper end holds with 95 % by itself, where it "
        "finds this share wrong; the model's predictions make it narrower. In brackets the upper "
        "end for one who looks just once, at a time fixed beforehand: the difference is the price "
        "of looking as often as one likes."
    )
    yield ""
    yield "| n | " + " | ".join(f"{share:.0%} wrong" for share in SHARES) + " |"
    yield "| ---: |" + " --- |" * len(SHARES)
    for n in SIZES:
        yield f"| {n} | " + " | ".join(_cell(n, share) for share in SHARES) + " |"


def _cell(n: int, share: float) -> str:
    """Return the interval where a share of n items is wrong, and the upper end of one look."""
    from parbals.learner.evaluation.limits import clopper_pearson_limits
    from parbals.learner.evaluation.looks import DELTA, latest_look

    look = latest_look(np.ones(n, bool), n)
    assert look is not None
    n_wrong = round(share * n)
    low, high = clopper_pearson_limits(n_wrong, n, look.delta)
    _, single_look = clopper_pearson_limits(n_wrong, n, DELTA)
    return f"{low:.1%} to {high:.1%} ({single_look:.1%})"
