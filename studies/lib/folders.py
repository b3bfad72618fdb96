"""Folders of the repository."""

from pathlib import Path

__all__ = ["DOCS", "EXPLANATION", "ROOT", "STUDIES"]

STUDIES = Path(__file__).parents[1]
ROOT = STUDIES.parent
DOCS = ROOT / "docs"
EXPLANATION = DOCS / "explanation"
