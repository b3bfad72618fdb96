"""Run the code blocks of Markdown pages, in order, each page in a folder of its own.

A page's ``python`` blocks share one namespace, its ``bash`` blocks one folder. Two comments, which
readers do not see, control this:

* ``<!-- not run: reason -->`` before a block skips it; the tests count these.
* ``<!-- python`` … ``-->`` is code that only the page needs, such as sample data.

Blocks in other languages (``text``, ``toml``, …) are not programs. A block must name its language.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
RUN = ("python", "bash")
_NOT_RUN = "<!-- not run:"
_HIDDEN = "<!-- python\n"


@dataclass(frozen=True)
class Block:
    """A block of code: its page, line and language, and why it is not run ("" if it is)."""

    page: str
    line: int
    language: str
    code: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def all_pages() -> list[str]:
    """Return all pages whose code readers may copy."""
    paths = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]
    return sorted(str(path.relative_to(ROOT)) for path in paths if path.exists())


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the blocks of a page in reading order, hidden ones included."""
    reason = ""
    for token in MarkdownIt().parse((ROOT / page).read_text("utf-8")):
        line = (token.map or [0])[0] + 1
        if token.type == "html_block" and token.content.startswith(_NOT_RUN):
            reason = token.content.removeprefix(_NOT_RUN).split("-->")[0].strip()
        elif token.type == "html_block" and token.content.startswith(_HIDDEN):
            code = token.content.removeprefix(_HIDDEN).split("-->")[0]
            yield Block(page, line, "python", code)
        elif token.type == "fence":
            yield Block(page, line, token.info.strip(), token.content, reason)
            reason = ""


def pictures_of(page: str) -> list[str]:
    """Return the paths of a page's pictures, as written in the page."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    return [line.split("](")[1].split(")")[0] for line in lines if line.startswith("![")]


def run_page(page: str, folder: Path) -> None:
    """Run every block of a page that is meant to be run; ``folder`` is the current one."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.reason or block.language not in RUN:
            continue
        if block.language == "python":
            # Blank lines in front make a traceback name the page's own line.
            code = compile("\n" * block.line + block.code, str(ROOT / page), "exec")
            exec(code, namespace)
        else:
            run_commands(block, folder)


def program_of(page: str) -> str:
    """A Python program that runs a page's blocks, for an environment without this module."""
    lines = [
        "import os, subprocess, sys",
        "programs = os.path.dirname(sys.executable)",
        "os.environ['PATH'] = programs + os.pathsep + os.environ['PATH']",
        "namespace = {'__name__': '__main__'}",
        "shell = ['bash', '-euo', 'pipefail', '-c']",
    ]
    for block in blocks_of(page):
        if block.reason or block.language not in RUN:
            continue
        if block.language == "python":
            lines.append(f"exec({block.code!r}, namespace)")
        else:
            lines.append(f"subprocess.run([*shell, {block.code!r}], check=True)")
    return "\n".join(lines) + "\n"


def run_commands(block: Block, folder: Path) -> None:
    """Run a block of shell commands, each of which must succeed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{block}\n{block.code}\n{process.stdout}\n{process.stderr}"
