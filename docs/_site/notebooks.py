"""Notebooks of the tutorials: the same text and code, written when the site is built."""

from pathlib import Path
from typing import Any

import jupytext
from sphinx.application import Sphinx


def write_notebooks(app: Sphinx, error: Exception | None) -> None:
    """``docs/tutorials/NAME.md`` as ``docs/tutorials/NAME.ipynb`` beside its page."""
    if error is not None or app.builder.format != "html":
        return
    for page in sorted(Path(app.srcdir, "docs", "tutorials").glob("*.md")):
        to = Path(app.outdir, "docs", "tutorials", f"{page.stem}.ipynb")
        to.parent.mkdir(parents=True, exist_ok=True)
        jupytext.write(jupytext.read(page), to)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
