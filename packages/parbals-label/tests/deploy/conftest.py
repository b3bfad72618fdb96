"""The files under deploy/, as they are: proxies are started with them and driven.

Where a tool is not installed its tests are skipped, and say so; ``make test-deploy`` installs the
tools and lets nothing be skipped.
"""

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))


@pytest.fixture
def tool():
    """``tool("nginx")``: where a program is."""

    def find(name):
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
        if path is None and os.environ.get("PARBALS_DEPLOY") == "all":
            pytest.fail(f"{name} is not installed")
        if path is None:
            pytest.skip(f"{name} is not installed; `make test-deploy` installs it")
        return path

    return find


@pytest.fixture
def free_port():
    def find():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    return find
