"""Source trees of the packages: this one, and that of another commit."""

import io
import subprocess
import tarfile
from pathlib import Path

from lib.folders import ROOT

__all__ = ["checked_out", "sources"]

PACKAGES = ("parbals", "parbals-label", "parbals-bench")


def sources(root: Path) -> list[Path]:
    """Folders of a tree's packages, for PYTHONPATH."""
    return [root / "packages" / name / "src" for name in PACKAGES]


def checked_out(reference: str, folder: Path) -> Path:
    """The tree of a commit, in ``folder``; or the folder itself that ``reference`` names."""
    if (Path(reference) / "packages").is_dir():
        return Path(reference).resolve()
    command = ["git", "archive", reference, "packages"]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder
