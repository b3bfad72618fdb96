"""A rate limit, on a clock of the test."""

from parbals_label.machines.rate import RateLimit


def times_sent(rate, sizes):
    """When each part is sent, if it is sent as soon as it may."""
    now = [0.0]
    limit = RateLimit(rate, lambda: now[0])
    times = []
    for n_items in sizes:
        now[0] += limit.delay(n_items)
        limit.record(n_items)
        times.append(now[0])
    return times


def test_without_a_rate_nothing_waits():
    assert times_sent(None, [1000] * 3) == [0.0, 0.0, 0.0]


def test_no_minute_has_more_than_the_rate():
    sizes = [6, 6, 4, 10, 1, 9, 3, 8]
    times = times_sent(10, sizes)
    for start in times:
        in_minute = [n for n, time in zip(sizes, times, strict=True) if start <= time < start + 60]
        assert sum(in_minute) <= 10
    assert times[:4] == [0.0, 60.0, 60.0, 120.0]  # and none waits longer than it must
