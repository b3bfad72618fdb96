"""The page of the GPU study."""

from typing import Any

__all__ = ["page"]


def page(results: dict[str, Any]) -> str:
    """README.md from record.json."""
    return "\n".join(
        [
            *_batches(results["limits"], results["batches"]),
            *_since(results["since"]),
            *_compiling(results["compile"]),
            *_choices(results["choices"], results["limits"]["sizes"]["B"]),
            *_stream(results["stream"]),
        ]
    )


def _batches(limits: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    facts = limits["machine"]
    sizes = limits["sizes"]
    peak_tflops = limits["float32_tflops"]
    lines = [
        "# How fast is a batch on a GPU?",
        "",
        f"{limits['device']}, JAX {limits['jax']}, {facts['date']}, commit {facts['commit']}; "
        "written by `python studies speed.gpu --report` from `record.json`. "
        "ParBaLS, "
        f"B = {sizes['B']}, U = {sizes['U']}, M = {sizes['M']:,}, D = {sizes['D']}, {sizes['n']} "
        "labels. Features begin in host memory as float32, so every figure holds the copy to the "
        "device. A batch walks the pool once and then takes a small program or two a step; the fit "
        "before it is not counted.",
        "",
        "| classes | pool | whole batch, s | copy, s | walk with copy, s | walk: TFLOP/s | share of"
        " limit | steps, s | steps: TFLOP/s | share of limit | rows scored in steps | peak, GB |",
        "|" + " ---: |" * 12,
    ]
    for row in rows:
        steps = row["batch"] - row["start"]
        walk_rate = 1e-12 * row["walk_flop"] / max(row["start"] - row["copy"], 1e-9)
        step_rate = 1e-12 * row["step_flop"] / steps
        lines.append(
            f"| {row['classes']} | {row['pool']:,} | {row['batch']:.3f} | {row['copy']:.3f} | "
            f"{row['start']:.3f} | {walk_rate:.1f} | {walk_rate / peak_tflops:.0%} | {steps:.3f} | "
            f"{step_rate:.2f} | {step_rate / peak_tflops:.1%} | {row['scored']:,} | "
            f"{1e-9 * row['peak_bytes']:.1f} |"
        )
    return [
        *lines,
        "",
        f"Limits, measured on the same device: float32 products {peak_tflops:.0f} TFLOP/s (the "
        f"shares are of it), with tensor cores {limits['default_tflops']:.0f}; copies from "
        f"unpinned host memory {limits['copy_gb_per_second']:.1f} GB/s. Covariances are products "
        "in full float32; the sums of their squares, in which nothing cancels, use tensor cores. "
        "The walk's rate is over the time that the copy leaves. The steps, one for each point of "
        "the batch, hold what the host does before them; they are small programs one after the "
        "other, far from the limits of the device.",
        "",
    ]


def _since(results: dict[str, Any]) -> list[str]:
    lines = [
        "## Batches of 10,000 items",
        "",
        f"{results['device']}, {results['date']}, commit {results['commit']}. *Warm*: median of "
        "nine batches. *First*: the first batch of a process with an empty cache of compiled "
        "programs, after JAX and the device have started.",
        "",
        "| classes | warm, s | quickest, s | first, s |",
        "|" + " ---: |" * 4,
    ]
    for row in results["rows"]:
        values = [row[key] for key in ("now", "least", "first")]
        cells = " | ".join("–" if value is None else f"{value:.2f}" for value in values)
        lines.append(f"| {row['classes']} | {cells} |")
    return [*lines, ""]


def _compiling(rows: list[dict[str, Any]]) -> list[str]:
    cells = (f"| {row['classes']} | {row['cache']} | {row['seconds']:.1f} |" for row in rows)
    return [
        "## Compiling",
        "",
        "| classes | cache of compiled programs | added to the first batch, s |",
        "| ---: | --- | ---: |",
        *cells,
        "",
    ]


def _choices(rows: list[dict[str, Any]], batch_size: int) -> list[str]:
    n_same = sum(row["same"] == batch_size for row in rows)
    parted = "" if n_same == len(rows) else ", the others part ways where scores tie"
    return [
        "## The same choices as on the CPU",
        "",
        f"Of {len(rows)} batches (2, 4 and 10 classes, five seeds each) {n_same} are the same "
        f"{batch_size} points in the same order{parted}; scores differ by at most "
        f"{max(row['apart'] for row in rows):.1e} of themselves.",
        "",
    ]


def _stream(results: dict[str, Any]) -> list[str]:
    return [
        "## A pool in a mapped file",
        "",
        f"{results['pool']:,} × 384 in float16, {results['gigabytes']:.1f} GB on disk: one batch "
        f"in {results['seconds']:.1f} s; the walk, timed by itself, {results['walk_seconds']:.1f} "
        "s (blocks are read and copied while earlier ones are scored). Peak on the device "
        f"{1e-9 * results['peak_bytes']:.1f} GB; {results['scored']:,} rows scored in the steps.",
        "",
    ]
