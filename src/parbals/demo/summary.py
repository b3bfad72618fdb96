"""What the results say, in sentences computed from them."""

import numpy as np

from parbals.bench.report.stats import mean_interval
from parbals.demo.run import STRATEGIES, Demo
from parbals.strategies.table import DEFAULT, ONE_BY_ONE, strategy_title

__all__ = ["curve_sentences", "worth_sentences"]


def worth_sentences(demo: Demo) -> list[str]:
    """How redundant each first batch is."""
    sentences = [
        f"{strategy_title(strategy)}: its messages would tell {batch.alone:.0f} mnat one by one, "
        f"but {batch.joint:.0f} mnat together, so {batch.redundancy:.0%} of what they know is said "
        "twice."
        for strategy, batch in demo.first.items()
    ]
    ours, one_by_one = demo.first[DEFAULT], demo.first[ONE_BY_ONE]
    if one_by_one.joint > 0:
        titles = strategy_title(DEFAULT), strategy_title(ONE_BY_ONE)
        sentences.append(
            f"The {titles[0]} batch tells {ours.joint / one_by_one.joint:.1f} times as much as the "
            f"{titles[1]} batch, for the same labelling work."
        )
    return sentences


def curve_sentences(demo: Demo) -> list[str]:
    """What the learning curves show, without claiming more than the seeds support."""
    final = {strategy: demo.values(strategy, "accuracy")[:, -1] for strategy in STRATEGIES}
    order = sorted(final, key=lambda strategy: -final[strategy].mean())
    means = ", ".join(f"{strategy_title(name)} {final[name].mean():.1f}%" for name in order)
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
