"""How accurate is expectation propagation with two classes, compared with long NUTS chains?

    python studies approximation.two_classes --pack real.npz  # real rows, from $PARBALS_DATA
    python studies approximation.two_classes --real real.npz --jobs 16  # every design
    JAX_PLATFORMS=cuda python studies approximation.two_classes --real real.npz --chains 512
    python studies approximation.two_classes --report  # write docs/explanation/trust.md
    python studies approximation.two_classes --only suite --draws 2000 --chains 8  # a quick check

Results are kept in record.jsonl, a line for each design; those that are there are not
computed again. Measuring needs NumPy, SciPy, scikit-learn, JAX and NumPyro, the report matplotlib.
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lib.folders import EXPLANATION

FOLDER = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write the real data's rows")
    parser.add_argument("--real", type=Path, metavar="FILE", help="the rows that --pack wrote")
    parser.add_argument("--out", type=Path, default=FOLDER / "record.jsonl", help="kept results")
    parser.add_argument("--only", default="", help="designs whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="designs at a time")
    parser.add_argument("--draws", type=int, default=100_000, help="of all chains together")
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--warm-up", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=240.0, help="limit of a design's chains")
    parser.add_argument("--report", action="store_true", help="write the page and its picture")
    options = parser.parse_args()
    if options.pack is not None:
        from approximation.two_classes.designs import pack_real

        print("\n".join(pack_real(options.pack)))
        return 0
    if options.report:
        from approximation.two_classes.designs import all_designs
        from approximation.two_classes.report import write_report

        stored = read(options.out)
        order = all_designs(Path("every real design has a place"))
        records = {name: stored[name] for name in order if name in stored}
        for path in write_report(records, EXPLANATION):
            print(f"wrote {path}")
        return 0
    return run(options)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Kept results by the name of their design."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {record["design"]: record for record in map(json.loads, lines)}


def run(options: argparse.Namespace) -> int:
    """Measure what is missing, longest first; 1 if a design failed."""
    from approximation.two_classes.designs import all_designs

    stored = read(options.out)
    names = [name for name in all_designs(options.real) if options.only in name]
    missing = [name for name in names if name not in stored]
    # Steep likelihoods need short steps and many rows are slow: whoever begins last must be quick.
    missing.sort(key=lambda name: ("norm 100" not in name, "500 labels" not in name))
    print(f"{len(names)} designs, {len(names) - len(missing)} of them kept", flush=True)
    effort = (options.chains, options.warm_up, options.draws, options.seconds)
    start = time.perf_counter()
    failed = 0
    with ProcessPoolExecutor(
        options.jobs, multiprocessing.get_context("spawn"), initializer=_one_core
    ) as executor:
        tasks = {executor.submit(_measured, name, options.real, effort): name for name in missing}
        for task in as_completed(tasks):
            name = tasks[task]
            elapsed = time.perf_counter() - start
            if task.exception() is not None:
                failed += 1
                print(f"{elapsed:6.0f} s  {name} FAILED: {task.exception()}", flush=True)
                continue
            record = {"design": name} | task.result()
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            facts = record["reference"]
            print(
                f"{elapsed:6.0f} s  {name}: {facts['n_draws']:,} draws in {facts['seconds']:.0f} s,"
                f" R-hat {facts['r_hat']:.4f}, rank {record['methods']['EP']['rank']:.3f}",
                flush=True,
            )
    return 1 if failed else 0


def _one_core() -> None:
    """Before NumPy and JAX are loaded: each design has one core or a share of the GPU."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def _measured(name: str, real: Path | None, effort: tuple[Any, ...]) -> dict[str, Any]:
    from approximation.two_classes.designs import all_designs
    from approximation.two_classes.measure import Effort, measure

    return measure(all_designs(real)[name](), Effort(*effort))
