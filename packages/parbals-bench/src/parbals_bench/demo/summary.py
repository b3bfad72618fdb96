"""What the results say, in sentences computed from them."""

import numpy as np
from parbals.strategies.table import DEFAULT, strategy_title
from parbals.wording import percent

from parbals_bench.demo.run import STRATEGIES, Demo
from parbals_bench.report.stats import mean_interval

__all__ = ["curve_sentences", "worth_sentences"]


def worth_sentences(demo: Demo) -> list[str]:
    """How much each first batch repeats itself, and what ours teaches beside the others."""
    sentences = [
        f"{strategy_title(strategy)}: {percent(batch.redundancy)} of what its messages know is "
        "said twice."
        for strategy, batch in demo.first.items()
    ]
    ours = demo.first[DEFAULT].joint
    compared = [
        f"{ours / batch.joint:.1f} times as much as the {strategy_title(other)} batch"
        for other, batch in demo.first.items()
        if other != DEFAULT and batch.joint > 0
    ]
    if compared:
        sentences.append(
            f"The {strategy_title(DEFAULT)} batch teaches {' and '.join(compared)}, for the same "
            "labelling work."
        )
    return sentences


def curve_sentences(demo: Demo) -> list[str]:
    """What the learning curves show, without claiming more than the seeds support."""
    final = {strategy: demo.values(strategy, "accuracy")[:, -1] for strategy in STRATEGIES}
    order = sorted(final, key=lambda strategy: -final[strategy].mean())
    means = ", ".join(
        f"{strategy_title(name)} {percent(final[name].mean() / 100)}" for name in order
    )
    seeds = "one seed" if demo.n_seeds == 1 else f"{demo.n_seeds} seeds"
    sentences = [
        f"With {demo.budget.total} labels the mean test accuracy over {seeds} was: {means}."
    ]
    for other in STRATEGIES:
        if other == DEFAULT:
            continue
        gap = mean_interval(final[DEFAULT] - final[other])  # paired: a seed is a split of the data
        lead = (
            f"{strategy_title(DEFAULT)} ended {abs(gap.mean):.1f} points "
            f"{'above' if gap.mean >= 0 else 'below'} {strategy_title(other)}"
        )
        interval = f"(95% interval ±{gap.half_width:.1f})"
        if np.isnan(gap.half_width):
            sentences.append(f"{lead} in this one run; a single run proves nothing, try --seeds 5.")
        elif abs(gap.mean) > gap.half_width:
            sentences.append(f"{lead} {interval}, a clear difference here.")
        else:
            sentences.append(f"{lead} {interval}, which {seeds} cannot tell from no difference.")
    return sentences
