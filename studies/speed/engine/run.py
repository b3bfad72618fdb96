"""How fast are a fit, a batch and a score compared with PyMC, NumPyro and BlackJAX, on two cores?

    python studies speed.engine             # everything; writes README.md and record.json
    python studies speed.engine --quick     # some minutes, fewer repetitions, one design
    python studies speed.engine --only a,c  # some parts: a a fit, b a batch, c scoring, d memory

Comparison packages that are not installed are named and left out. Nothing is written unless the run
is the whole one or ``--out`` says where.
"""

import argparse
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from lib.isolate import WorkerError, pin_cores

PARTS = {"a": "fits", "b": "batches", "c": "scoring", "d": "memory"}
RIVALS = ["pymc", "pymc-numba", "numpyro", "numpyro-jit", "blackjax-jit", "parbals-nuts"]
RIVALS += ["laplace", "parbals-ep"]


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for; 0 if all ran, 1 if one failed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    for warning in pin_cores(options.cores):
        print(f"Warning: {warning}", file=sys.stderr)
    # Only now: these load NumPy, which reads the number of threads once.
    from lib import report, rivals
    from lib.workload import PRESETS
    from speed.engine.bench import Bench

    preset = "full"
    if options.smoke:
        preset = "smoke"
    elif options.quick:
        preset = "quick"
    sizes = PRESETS[preset]
    rivals_wanted = sizes.rivals if options.rivals is None else options.rivals
    methods = ["parbals", *(name for name in RIVALS if name in rivals_wanted)]
    missing = rivals.missing_packages(methods)
    for package in sorted(set(missing.values())):
        print(
            f"{package} is not installed, so it is left out. To compare: pip install {package}",
            file=sys.stderr,
        )
    methods = [method for method in methods if method not in missing]
    parts = "" if list(options.only) == list(PARTS) else f" --only {','.join(options.only)}"
    facts = report.machine(options.cores) | {
        "sizes": sizes.name,
        "options": f"speed.engine{'' if sizes.name == 'full' else f' --{sizes.name}'}{parts}",
        "left_out": sorted(set(missing.values())),
    }
    if facts["load_before"][0] > 0.5 * options.cores:
        print(
            f"Warning: this machine is busy (load {facts['load_before'][0]}); times are "
            "unreliable.",
            file=sys.stderr,
        )

    # A time limit or a scheduler ends us with SIGTERM; treat it like Ctrl-C, so that no worker
    # stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sections = []
    status = 0
    start = time.perf_counter()
    bench = Bench(sizes, methods, options.keep)
    try:
        for name in options.only:
            try:
                sections.append(import_module(f"speed.engine.{PARTS[name]}").run(bench))
            except WorkerError as error:
                status = 1
                print(f"Part ({name}) failed:\n{error}", file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
        finished = ", ".join(section.name for section in sections) or "none"
        print(
            f"Interrupted. Parts that were finished: {finished}; nothing is written.",
            file=sys.stderr,
        )
    finally:
        bench.close()
    facts["minutes"] = round((time.perf_counter() - start) / 60, 1)
    if sections:
        print("\n".join(report.markdown(sections, facts)))
    whole = sizes.name == "full" and list(options.only) == list(PARTS)
    folder = options.out or (Path(__file__).parent if whole else None)
    if folder is not None and status == 0:
        for path in report.write_report(sections, facts, folder):
            print(f"wrote {path}")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="some minutes: fewer repetitions, one design"
    )
    size.add_argument(
        "--smoke",
        action="store_true",
        help="tiny sizes: does every part run? The times mean nothing",
    )
    parser.add_argument(
        "--only", type=_parts, default=list(PARTS), metavar="a,b,c,d", help="parts to run"
    )
    parser.add_argument(
        "--rivals",
        type=_rivals,
        metavar="NAMES",
        help=f"what to compare with, of {','.join(RIVALS)}; or none "
        "(default: all; with --quick pymc,numpyro-jit,laplace,parbals-ep)",
    )
    parser.add_argument(
        "--cores", type=_positive, default=2, help="cores to use (2; more is for your curiosity)"
    )
    parser.add_argument("--out", type=Path, help="folder for README.md and record.json")
    parser.add_argument("--keep", type=Path, help="folder in which part b goes on when interrupted")
    return parser


def _parts(text: str) -> list[str]:
    names = set(text.split(","))
    if not names or names - set(PARTS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose some of {','.join(PARTS)}")
    return [name for name in PARTS if name in names]


def _rivals(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    unknown = set(names) - set(RIVALS)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: choose some of {','.join(RIVALS)}, none"
        )
    return names


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cores")
    return int(text)
