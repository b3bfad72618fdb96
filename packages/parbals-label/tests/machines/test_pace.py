"""The rate, on a clock of our own; the waits between tries; reasons to stop."""

from parbals_label.machines.pace import Pace, Stop, backoff


def simulated(rate, parts):
    """When each part goes, if it goes as soon as it may."""
    now = [0.0]
    pace, moments = Pace(rate, lambda: now[0]), []
    for n in parts:
        now[0] += pace.delay(n)
        pace.sent(n)
        moments.append(now[0])
    return moments


def test_without_a_rate_nothing_waits():
    assert simulated(None, [1000] * 3) == [0.0, 0.0, 0.0]


def test_no_minute_has_more_than_the_rate():
    parts = [6, 6, 4, 10, 1, 9, 3, 8]
    moments = simulated(10, parts)
    for start in moments:
        assert (
            sum(n for n, at in zip(parts, moments, strict=True) if start <= at < start + 60) <= 10
        )
    assert moments[:4] == [0.0, 60.0, 60.0, 120.0]  # and none waits longer than it must


def test_backoff_doubles_up_to_a_minute():
    assert [backoff(1.0, k) for k in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 60.0]


def test_a_stop_ends_every_wait():
    stop = Stop()
    assert stop.wait(0.0)
    stop.ask()
    assert not stop.wait(3600.0)
    assert stop.reason == "interrupted"
    assert not Stop(max_seconds=0.01).wait(3600.0)
