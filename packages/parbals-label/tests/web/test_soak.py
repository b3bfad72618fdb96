"""A small dose of the soak that `make soak` runs for as long as anybody likes."""

import sys

import pytest
from soak import FAULTS, Soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are Linux's")


@pytest.mark.full
def test_nothing_is_lost_or_doubled_whatever_happens_to_the_server(tmp_path):
    soak = Soak(tmp_path / "p", people=20, items=200, seed=1, pause=0.3)
    result = soak.run(seconds=16, between=2)
    assert (result["lost"], result["doubled"], result["wrong"]) == (0, 0, 0), result
    assert result["problems"] == []
    assert set(result["faults"]) == set(FAULTS)
    assert result["confirmed"] > 50
    assert result["said"]["labelled"] > 20


@pytest.mark.full
def test_what_is_lost_doubled_or_wrong_is_counted(tmp_path):
    """A person who remembers more than the project holds."""
    soak = Soak(tmp_path / "p", people=1, items=30, seed=1, pause=0.3)
    (person,) = soak.people
    soak.act(person, 3)
    soak.act(person, 4)
    soak.server.stop()
    assert soak.count()["wrong"] == soak.count()["lost"] == 0
    person.confirmed["never"] = ("/api/answers", {}, True)
    person.labels[9] = "ham"
    result = soak.count()
    assert (result["lost"], result["wrong"]) == (1, 1)
