"""One page for all tests of a module that only need one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from message_projects import run
from page_server import make_project, page

__all__ = ["run"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with page(make_project(tmp_path_factory.mktemp("page") / "mail")) as server:
        yield server


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "mail")
