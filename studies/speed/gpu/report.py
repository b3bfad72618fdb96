"""The page of the GPU study."""

from typing import Any

__all__ = ["page"]


def page(results: dict[str, Any]) -> str:
    """README.md from record.json."""
    return "\n".join(
        [
            *_batches(results["limits"], results["batches"]),
            *_first_call(results["first_call"]),
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


def _first_call(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## The first call of a process",
        "",
        "A pool of 10,000 items in a fresh process. *Start*: to load JAX and start the device. "
        "*Pending*: 20 points are out. Warm times are the best of five.",
        "",
        "| classes | compiled programs on disk | start, s | first batch, s | first pending, s | "
        "all three, s | warm batch, s | warm pending, s |",
        "| ---: | --- |" + " ---: |" * 6,
    ]
    for row in rows:
        on_disk = {"empty": "none", "filled": "kept"}[row["cache"]]
        parts = [row["start"], row["first"], row["first_pending"]]
        seconds = [*parts, sum(parts), row["warm"], row["warm_pending"]]
        cells = " | ".join(f"{value:.2f}" for value in seconds)
        lines.append(f"| {row['classes']} | {on_disk} | {cells} |")
    return [*lines, ""]


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
