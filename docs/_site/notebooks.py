"""Write each tutorial as a notebook with the same text and code when the site is built.

Each tutorial's page gets a link to its notebook.
"""

import re
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode
from sphinx.application import Sphinx

_FOLDER = "docs/tutorials/"
_PYTHON = """---
jupyter:
  jupytext: {main_language: python}
  kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
_LINK = '<p><a href="{name}.ipynb" download>Download this page as a notebook</a></p>'


def notebook_of(text: str) -> NotebookNode:
    """Convert a tutorial to a Python notebook, with ``%%bash`` cells for commands.

    Blocks that are not run (they serve a page or install) become text; links lead to the site's
    pages.
    """
    text = re.sub(r"<!-- not run:.*?-->\n```\w+", "```text", text, flags=re.DOTALL)
    text = re.sub(r"(\]\([^):]+)\.md([)#])", r"\1.html\2", text)
    return jupytext.reads(_PYTHON + text, fmt="md")


def write_notebooks(app: Sphinx, error: Exception | None) -> None:
    """Write ``docs/tutorials/NAME.ipynb`` beside the page of each ``docs/tutorials/NAME.md``."""
    if error is not None or app.builder.format != "html":
        return
    for page in sorted(Path(app.srcdir, _FOLDER).glob("*.md")):
        to = Path(app.outdir, _FOLDER, f"{page.stem}.ipynb")
        to.parent.mkdir(parents=True, exist_ok=True)
        jupytext.write(notebook_of(page.read_text("utf-8")), to)


def add_link(app: Sphinx, page: str, source: list[str]) -> None:
    """Insert the link to the notebook below the title of a tutorial."""
    if page.startswith(_FOLDER):
        title, _, rest = source[0].partition("\n\n")
        link = _LINK.format(name=page.removeprefix(_FOLDER))
        source[0] = f"{title}\n\n{link}\n\n{rest}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", add_link)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
