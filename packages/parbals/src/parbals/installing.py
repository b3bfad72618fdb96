"""The `pip install` line that brings a missing package, from where parbals itself came.

``pip`` notes in ``direct_url.json`` where a distribution was installed from (PEP 610): a folder of
a checkout, a wheel, or a version-control address. Without that note it came from a package index.
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["install_command"]

_LIBRARY = "parbals"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extra>[\w-]+)\])?")
_WITH_PYTORCH = ("encoders",)
"""Extras that install PyTorch."""
_CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
_NVIDIA_DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""Of Linux, of containers and of Linux under Windows."""
_STANDS_ON = {"parbals-bench": ("parbals-label",)}
"""Our packages that a package of ours requires, besides the library."""


def install_command(requirement: str, *, upgrade: bool = False) -> str:
    """The command that installs ``requirement``, such as ``parbals[label]``.

    From a checkout it names the folder of the package, from a wheel the wheel beside it, and from
    an index the requirement itself. Where PyTorch is needed on a Linux machine without a GPU, its
    build for the CPU comes first.

    >>> install_command("pymc")
    'pip install pymc'
    """
    command = "pip install --upgrade" if upgrade else "pip install"
    sources = _sources(requirement) or [requirement]
    install = " ".join([command, *map(shlex.quote, sources)])
    parsed = _REQUIREMENT.fullmatch(requirement)
    if (
        parsed is not None
        and parsed["extra"] in _WITH_PYTORCH
        and not upgrade
        and _needs_cpu_torch()
    ):
        return f"{_CPU_TORCH} && {install}"
    return install


def _needs_cpu_torch() -> bool:
    """Whether pip would install PyTorch with gigabytes of CUDA that this machine cannot use."""
    has_gpu = any(Path(path).exists() for path in _NVIDIA_DRIVERS)
    return sys.platform == "linux" and not has_gpu and _installed("torch") is None


def _sources(requirement: str) -> list[str] | None:
    """Folders, files or addresses to install, or None where an index has the requirement."""
    library = _installed(_LIBRARY)
    parsed = _REQUIREMENT.fullmatch(requirement)
    if library is None or parsed is None or parsed["name"] != _LIBRARY:
        return None
    origin = json.loads(library.read_text("direct_url.json") or "{}")
    if not origin:
        return None
    package, extra = _package_of_extra(library, parsed["extra"])
    missing = [name for name in _STANDS_ON.get(package, ()) if _installed(name) is None]
    sources = [_beside_library(origin, name, None) for name in missing]
    sources.append(_beside_library(origin, package, extra))
    existing = [source for source in sources if source is not None]
    return existing if len(existing) == len(sources) else None


def _package_of_extra(library: "Distribution", extra: str | None) -> tuple[str, str | None]:
    """The package of ours that an extra of the library leads to, and the extra of that package."""
    for line in library.requires or []:
        specifier, _, marker = line.partition(";")
        ours = re.match(r"(parbals-\w+)(?:\[([\w-]+)\])?", specifier)
        if ours is not None and re.search(rf"extra == ['\"]{extra}['\"]", marker):
            return ours[1], ours[2]
    return _LIBRARY, extra


def _beside_library(origin: dict[str, Any], package: str, extra: str | None) -> str | None:
    """Where ``package`` lies if the library came from ``origin``; None where it does not."""
    suffix = f"[{extra}]" if extra else ""
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        folder = Path(origin.get("subdirectory", "")).with_name(package).as_posix()
        address = f"{version['vcs']}+{origin['url']}@{version['commit_id']}"
        return f"{package}{suffix} @ {address}#subdirectory={folder}"
    address = urlsplit(origin["url"])
    if address.scheme != "file":
        return None
    from urllib.request import url2pathname  # slow to import, and only this needs it

    library = Path(url2pathname(address.path))
    name = package if "dir_info" in origin else _file_name(library.name, package)
    path = library.with_name(name)
    return f"{path}{suffix}" if path.exists() else None


def _file_name(library: str, package: str) -> str:
    """The name of a package's wheel or source archive, after that of the library."""
    return library.replace(_LIBRARY, package.replace("-", "_"), 1)


def _installed(name: str) -> "Distribution | None":
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
