"""The prompts of a project's items, and what labelling them would cost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from parbals.errors import InputError

from parbals_label.machines.llm.asking import MakePrompts, Price
from parbals_label.machines.llm.examples import nearest_examples
from parbals_label.machines.llm.prompt import (
    Example,
    Instructions,
    Prompt,
    Unusable,
    estimated_tokens,
)
from parbals_label.project.measured import measured_positions, never_chosen
from parbals_label.project.media import MediaError, image_column, read_image
from parbals_label.store.records import Item
from parbals_label.store.replies import money
from parbals_label.store.store import Store

__all__ = ["Estimate", "estimate", "make_prompts"]

_N_SAMPLED = 50
"""Items whose prompts are measured for an estimate."""
_REPLY_TOKENS = 12
"""Tokens of a reply such as {"label": "spam"}."""
_MAX_IMAGE_BYTES = 10 << 20


def make_prompts(store: Store) -> MakePrompts:
    """A function that makes the prompts of a batch, with the labels that there are then."""

    def prompts(items: Sequence[Item]) -> dict[int, Callable[[], Prompt]]:
        settings = store.settings
        instructions = Instructions(store.form, settings.guidelines, settings.descriptions)
        examples = nearest_examples(store, [item.position for item in items])
        column = image_column(store)
        return {
            item.position: partial(
                _prompt, store, instructions, item, examples[item.position], column
            )
            for item in items
        }

    return prompts


def _prompt(
    store: Store,
    instructions: Instructions,
    item: Item,
    examples: Sequence[Example],
    image_name: str | None,
) -> Prompt:
    """The prompt about an item, with its image if items are images."""
    if image_name is None:
        return instructions.prompt(item.content, examples)
    try:
        kind, data = read_image(store, item.position)
    except MediaError as error:
        raise Unusable(str(error).rstrip(".")) from None
    if len(data) > _MAX_IMAGE_BYTES:
        raise Unusable(f"its image has more than {_MAX_IMAGE_BYTES >> 20} MB")
    other_columns = {name: value for name, value in item.content.items() if name != image_name}
    return instructions.prompt(other_columns, examples, (kind, data))


@dataclass(frozen=True)
class Estimate:
    """What labelling would take, before anything is sent.

    Attributes:
        prompt: one prompt, as it would be sent; None if there is nothing to label.
        n_items: items to label.
        tokens_in, tokens_out: about how many tokens all of them have.
        cost: about what they cost; None without a price.
    """

    prompt: Prompt | None
    n_items: int
    tokens_in: int
    tokens_out: int
    cost: float | None

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        cost = "" if self.cost is None else f", cost about {money(self.cost)}"
        return (
            f"{self.n_items:,} items to label, about {self.tokens_in:,} tokens in and "
            f"{self.tokens_out:,} out{cost}."
        )


def estimate(store: Store, price: Price | None, max_labels: int | None = None) -> Estimate:
    """Estimate tokens and cost from the prompts of random items; nothing is sent or reserved."""
    excluded = measured_positions(store).union(store.current_labels(), store.pending())
    excluded |= never_chosen(store)
    positions = [p for p in range(store.n_items) if p not in excluded]
    n_items = len(positions) if max_labels is None else min(len(positions), max_labels)
    if not n_items:
        return Estimate(None, 0, 0, 0, None if price is None else 0.0)
    n_sampled = min(len(positions), _N_SAMPLED)
    sampled = np.random.default_rng(0).choice(positions, n_sampled, replace=False).tolist()
    prompts = []
    for make in make_prompts(store)(store.visible_items(sampled)).values():
        with suppress(Unusable):
            prompts.append(make())
    if not prompts:
        raise InputError("No image of the sampled items can be read; check where they are.")
    mean_tokens = sum(map(estimated_tokens, prompts)) / len(prompts)
    tokens_in = round(mean_tokens * n_items)
    tokens_out = _REPLY_TOKENS * n_items
    cost = None if price is None else price.cost(tokens_in, tokens_out)
    return Estimate(prompts[0], n_items, tokens_in, tokens_out, cost)
