"""Where the repository's files are, for tests that look at them."""

from pathlib import Path

__all__ = ["ROOT", "SOURCES"]

ROOT = Path(__file__).parents[1]
SOURCES = [
    ROOT / "packages" / name / "src" for name in ("parbals", "parbals-label", "parbals-bench")
]
