"""A project of a few messages, and runs of an LLM over it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper modules beside this file

from functools import partial

from llm_runs import N, label_by
from machine_projects import make_project
from message_projects import copy_project


@pytest.fixture(scope="session")
def llm_project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("llm") / "spam", N + 4, labelled=4)


@pytest.fixture
def project(llm_project, tmp_path):
    return copy_project(llm_project, tmp_path / "spam")


@pytest.fixture
def ask(project):
    """Label the project by the server at an address: the result, and what was said."""
    return partial(label_by, folder=project)
