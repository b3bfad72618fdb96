"""Where the repository's files are, for tests that look at them."""

from pathlib import Path

__all__ = ["PACKAGES", "ROOT", "SOURCES"]

ROOT = Path(__file__).parents[1]
PACKAGES = {
    name: ROOT / "packages" / name for name in ("parbals", "parbals-label", "parbals-bench")
}
"""Each stands on the ones before it."""
SOURCES = [folder / "src" for folder in PACKAGES.values()]
