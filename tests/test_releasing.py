"""What RELEASING.md promises of saved files is what the code writes."""

import re

from parbals.learner import archive
from parbals_label.project import model_files
from parbals_label.store import schema
from repository import ROOT

PAGE = (ROOT / "RELEASING.md").read_text("utf-8")


def test_the_versions_of_saved_files_are_those_of_the_code():
    rows = re.findall(r"^\| (\w+) \| `[^`]+` \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: int(version) for name, version in rows} == {
        "project": schema.VERSION,
        "learner": archive._VERSION,
        "model": model_files._VERSION,
    }
