"""Reasons to stop."""

from parbals_label.machines.asking import Stop


def test_a_stop_ends_every_wait():
    stop = Stop()
    assert stop.wait(0.0)
    stop.ask()
    assert not stop.wait(3600.0)
    assert stop.reason == "interrupted"
    assert not Stop(max_seconds=0.01).wait(3600.0)
