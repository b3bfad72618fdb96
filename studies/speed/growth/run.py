"""How do time and memory grow with each size of a problem, and how long do commands take?

    python studies speed.growth  # every point, on two cores
    python studies speed.growth --only N,C --limit 900  # two axes, at most 15 minutes a point
    python studies speed.growth --N 1000,10000  # other values of an axis
    python studies speed.growth --only projects --projects 2000:4  # commands, one size
    JAX_PLATFORMS=cuda python studies speed.growth --cores 0 --device-name H200
    python studies speed.growth --report  # write table and figure from the record

Every point is measured in a fresh process and written to record.json at once, under the name of
the device: what is there is not measured again (what took too long is, with a longer --limit), so
a run that was stopped goes on. A second device adds its rows and lines. Axis letters as in the
package, n labelled points; the other sizes stay at their base. Writes README.md and growth.svg.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lib.folders import STUDIES
from lib.isolate import pin_cores
from lib.report import machine
from speed.growth.report import write_growth

FOLDER = Path(__file__).parent
AXES = {
    "N": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    "C": (2, 4, 10, 30, 100),
    "B": (1, 5, 20, 100),
    "U": (1, 3, 10, 30),
    "K": (100, 400, 1_600, 6_400),
    "n": (10, 30, 100, 300, 1_000),
}
BASE = {"N": 10_000, "M": 1_000, "C": 2, "B": 20, "U": 10, "K": 400, "n": 100, "D": 64}
SMOKE = {"N": 60, "M": 20, "C": 2, "B": 2, "U": 2, "K": 32, "n": 10, "D": 3}
BASE_CLASSES = (2, 4)
"""Two classes may take another path than many, so the other axes are measured with both."""
C_AXIS = {"M": 500}
"""With a hundred classes a thousand targets would be too many for some machines."""
PROJECTS = ((1_000, 2_000, 10_000, 1_000_000), (2, 4, 10))


def main() -> int:
    options = parse()
    for warning in pin_cores(options.cores) if options.cores else ():
        print(warning, file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "record.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if not options.report:
        facts = machine(options.cores or os.cpu_count() or 1)
        name = options.device_name or f"{facts['processor']}, {facts['cores_used']} cores"
        device = results.setdefault(name, {"machine": facts, "points": {}})
        for kind, axis, sizes in points(options):
            key = key_of(kind, axis, sizes)
            if is_wanted(device["points"].get(key), options.limit):
                print(f"{key} ...", end=" ", file=sys.stderr, flush=True)
                result = measured(kind, sizes, options.limit)
                device["points"][key] = {"kind": kind, "axis": axis, "sizes": sizes, **result}
                write_whole(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
                print(result.get("failed", "done"), file=sys.stderr, flush=True)
    if not results:
        print("Nothing has been measured yet.", file=sys.stderr)
        return 1
    print(write_growth(results, options.out))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = [*AXES, "projects"]
    text = ",".join(parts)
    parser.add_argument("--only", default=text, help=f"by default {text}, the commands")
    for axis, values in AXES.items():
        text = ",".join(map(str, values))
        parser.add_argument(f"--{axis}", default=text, dest=axis, help=f"by default {text}")
    parser.add_argument("--projects", help="sizes of projects, as 2000:4 (items:classes),...")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a point may take")
    parser.add_argument("--cores", type=int, default=2, help="0: all there are, not pinned")
    parser.add_argument("--device-name", help="by default the processor and its cores")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--smoke", action="store_true", help="does it run? tiny sizes")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for name in options.only:
        if name not in parts:
            parser.error(f"{name!r} is not one of {', '.join(parts)}")
    try:
        values_by_axis = {axis: getattr(options, axis).split(",") for axis in AXES}
        options.values = {axis: sorted(map(int, values)) for axis, values in values_by_axis.items()}
    except ValueError:
        parser.error("the values of an axis are whole numbers, separated by commas")
    if options.cores < 0 or options.limit <= 0:
        parser.error("--cores is at least 0 and --limit more than 0")
    return options


def points(options: argparse.Namespace) -> list[tuple[str, str, dict[str, int]]]:
    """(kind, axis, sizes) of every point, the small ones of an axis first."""
    base = SMOKE if options.smoke else BASE
    listed = []
    for axis in AXES:
        if axis not in options.only:
            continue
        values = options.values[axis]
        classes = BASE_CLASSES
        if options.smoke:
            values = [base[axis], 2 * base[axis]]
            classes = (base["C"],)
        fixed = [{**base, "C": c} for c in classes] if axis != "C" else [base | C_AXIS]
        listed += [("batch", axis, {**sizes, axis: v}) for sizes in fixed for v in values]
    if "projects" in options.only:
        sizes = [(n, c) for n in PROJECTS[0] for c in PROJECTS[1]]
        if options.smoke:
            sizes = [(base["N"], base["C"])]
        elif options.projects:
            sizes = [tuple(map(int, pair.split(":"))) for pair in options.projects.split(",")]
        listed += [("project", "", {**base, "N": n, "C": c}) for n, c in sizes]
    return listed


def is_wanted(point: dict[str, Any] | None, limit: float) -> bool:
    """Not measured yet, broken off by an error, or stopped at a limit that was shorter."""
    return point is None or ("failed" in point and limit > point.get("limit", 0.0))


def key_of(kind: str, axis: str, sizes: dict[str, int]) -> str:
    return " ".join([kind, axis or "-", *(f"{name}={value}" for name, value in sizes.items())])


def measured(kind: str, sizes: dict[str, int], limit: float) -> dict[str, Any]:
    """What the point's process found out in time; ``failed`` says what kept it from the rest."""
    # Batches compile everything themselves; the commands are what a person has, the cache included.
    cache = "1" if kind == "project" else "0"
    command = [sys.executable, str(STUDIES), "speed.growth.points", kind, json.dumps(sizes)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": cache},
            start_new_session=True,  # it starts processes of its own, which end with it
        )
        failed: dict[str, Any] = {}
        try:
            if process.wait(limit) != 0:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["no word of why"])[-1]
                failed = {"failed": f"failed: {last} (exit code {process.returncode})"}
        except subprocess.TimeoutExpired:
            failed = {"failed": f"more than {limit:g} s", "limit": limit}
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        lines = output.read().splitlines()
    return {**(json.loads(lines[-1]) if lines else {}), **failed}


def write_whole(path: Path, text: str) -> None:
    """A run that is stopped here leaves the results of before."""
    draft = path.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
