"""The options of `parbals label` that ask an LLM."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, printable
from parbals.errors import InputError

from parbals_label.cli.options import flag, grouped, option

if TYPE_CHECKING:
    from parbals_label.machines.llm.asking import ChatModel, Price
    from parbals_label.store.store import Store

__all__ = ["LLM", "LlmOptions", "opened_model", "print_estimate"]


@dataclass(frozen=True)
class LlmOptions:
    """Which LLM is asked, and what it costs."""

    url: str | None
    model: str | None
    price: "Price | None"
    dry_run: bool
    key_variable: str | None


def _parse_price(context: Any, parameter: Any, value: str | None) -> "Price | None":
    """Parse the prices of a million tokens of prompts and of replies."""
    if value is None:
        return None
    from parbals_label.machines.llm.asking import Price

    number = r"\s*([0-9]{1,9}(?:\.[0-9]+)?)\s*"
    match = re.fullmatch(f"{number},{number}", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no price; say IN,OUT as in 0.15,0.60.")
    return Price(float(match[1]), float(match[2]))


LLM = grouped(
    "llm",
    LlmOptions,
    option(
        "--llm URL",
        "Ask an LLM at this OpenAI-compatible address, such as https://api.openai.com/v1 or "
        "http://localhost:8000/v1. The key is read from OPENAI_API_KEY.",
        argument="url",
    ),
    option("--model NAME", "Name the model to ask."),
    option(
        "--price IN,OUT",
        "Set the price of a million tokens of prompts and of replies; money is counted by it.",
        callback=_parse_price,
    ),
    flag("--dry-run", "Show one prompt, the number of items, tokens and cost; send nothing."),
    option(
        "--key VARIABLE",
        "Read the key from this environment variable.  [default: OPENAI_API_KEY]",
        argument="key_variable",
        rare=True,
    ),
)
"""Options of the LLM, as :class:`LlmOptions`."""


@contextmanager
def opened_model(
    store: "Store",
    llm: LlmOptions,
    annotator: str,
    max_cost: float | None,
    rate: int | None,
    retries: int,
    timeout: float,
) -> Iterator["ChatModel"]:
    """The model that labels under a name; ``max_cost`` is what it may cost in total."""
    from parbals_label.machines.llm.asking import ChatModel
    from parbals_label.machines.llm.endpoint import Endpoint, key_from
    from parbals_label.machines.llm.project import make_prompts
    from parbals_label.store.replies import Replies

    if not llm.url or not llm.model:
        raise InputError("--llm needs --model, the name of the model to ask.")
    if max_cost is not None and llm.price is None:
        raise InputError("--max-cost needs the price of tokens; say it as --price IN,OUT.")
    endpoint = Endpoint(llm.url, key_from(llm.key_variable, llm.url), timeout)
    with Replies(store.folder) as replies:
        yield ChatModel(
            endpoint,
            llm.model,
            annotator,
            make_prompts(store),
            replies,
            price=llm.price,
            max_cost=max_cost,
            rate=rate,
            retries=retries,
        )


def print_estimate(
    store: "Store", llm: LlmOptions, max_labels: int | None, *, as_json: bool
) -> None:
    """Print one prompt, and what labelling would take."""
    from parbals_label.machines.llm.project import estimate

    expected = estimate(store, llm.price, max_labels)
    texts = expected.prompt.texts if expected.prompt is not None else []
    sections = [f"--- {role} ---\n{text}" for role, text in texts]
    sentence = f"{expected.sentence} Nothing was sent."
    print_result(
        as_json,
        {
            "prompt": [{"role": role, "text": text} for role, text in texts],
            "items": expected.n_items,
            "tokens_in": expected.tokens_in,
            "tokens_out": expected.tokens_out,
            "cost": expected.cost,
        },
        printable("\n\n".join([*sections, sentence])),
    )
