"""The process of one row: prints a JSON line for every measure as soon as it is known.

Run by ``speed.run`` with the packages of the tree to measure first in PYTHONPATH. Rows use public
names alone, so that they run with the library of another commit.
"""

import json
import sys
from importlib import import_module

from speed.clock import Measure, bare_product


def main() -> int:
    kind, text = sys.argv[1:]
    sizes = json.loads(text)
    has_product = kind not in ("gpu", "first_call")
    if has_product:
        write(bare_product())
    for measure in import_module(f"speed.measures.{kind}").measures(sizes):
        write(measure)
    if has_product:
        write(bare_product())
    return 0


def write(measure: Measure) -> None:
    print(json.dumps(measure), flush=True)
