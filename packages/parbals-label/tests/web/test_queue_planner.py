"""The project's strategy keeps up with quick people, in time that is made up."""

import heapq

import pytest
from parbals_label.web.queue_planner import EFFORTS, QueuePlanner

# CPU seconds on two busy cores, 3,000 items of ten classes and 50 features: what every batch costs,
# what every item costs that is chosen or out, and every label: a fit, or three where people are
# weighed.
COSTS = {10: (1.4, 0.18), 4: (0.8, 0.09), 2: (0.4, 0.031)}
A_FIT = 0.003
REPORTS = 1.3  # the report's share of the core
HELD = 4
QUICK = 20


def share(n_people, seconds, policy, minutes=5.0):
    """Which share of the labels the strategy chose, after the first minute."""
    planner = policy
    queue = ["start"] * QUICK
    events = []
    hands = [[] for _ in range(n_people)]
    for person in range(n_people):
        heapq.heappush(events, (seconds * (1 + person / n_people), person))
    strategies = []
    answer_times = []
    busy_until = 0.0
    batch = 0
    latest = (0.0, 0)
    n_batches = 0
    while events:
        now, person = heapq.heappop(events)
        if now > 60 * minutes:
            break
        if batch and now >= busy_until:
            renewed = [one for one in queue if one == "ours"]
            queue = renewed + ["ours"] * batch
            batch = 0
            n_batches = n_batches + 1
        hand = hands[person]
        while len(hand) < HELD:
            queue = queue or ["quick"] * QUICK
            hand.append(queue.pop(0))
        if now > 60:
            strategies.append(hand.pop(0))
        else:
            hand.pop(0)
        answer_times.append(now)
        heapq.heappush(events, (now + seconds, person))
        rate = sum(now - moment < 30 for moment in answer_times[-1000:]) / 30
        if not batch:
            planner.update(n_batches, *latest, rate)
            wanted = planner.queue_length(n_people, *latest, rate)
            ours = queue.count("ours")
            if 2 * ours < wanted:
                batch = wanted - ours
                out = n_people * HELD + ours
                fixed, each = COSTS[planner.effort["n_universes"]]
                fixed += (
                    A_FIT * len(answer_times) * (3 if planner.effort["models_annotators"] else 1)
                )
                cost = (fixed + each * (batch + out)) * REPORTS
                busy_until = now + cost
                latest = (cost, batch)
    return strategies.count("ours") / len(strategies)


class Before(QueuePlanner):
    """At most 28 items ahead, with every universe."""

    effort = EFFORTS[0]

    def queue_length(self, n_people, seconds, n_chosen, rate):
        each = max(seconds / max(n_chosen, 1), 1e-3)
        wanted = max(10, 3 * n_people, min(round(4.0 * seconds * rate), 28))
        return max(10, min(wanted, int(20 / each)))


@pytest.mark.parametrize("seconds", [2.0, 3.0, 5.0])
def test_ten_quick_people_and_ten_classes_get_four_fifths_from_the_strategy(seconds):
    assert share(10, seconds, QueuePlanner()) >= 0.8


def test_it_is_the_size_and_the_universes_that_do_it():
    assert share(10, 2.0, Before()) < 0.6


def test_a_batch_of_which_people_took_most_meanwhile_does_not_make_the_next_one_small():
    planner = QueuePlanner()
    assert planner.queue_length(10, seconds=25.0, n_chosen=60, rate=5.0) == 120
    assert planner.queue_length(10, seconds=120.0, n_chosen=30, rate=5.0) == 30, (
        "three for each, always"
    )


def test_haste_ends_with_the_pace():
    planner = QueuePlanner()
    assert planner.effort == EFFORTS[-1], "the first batch comes soon"
    for number in range(1, 4):
        planner.update(number, 10.0, 20, rate=5.0)
    assert planner.effort == EFFORTS[-1]
    planner.update(3, 1.0, 20, rate=0.1)  # no new batch, nothing new to learn
    assert planner.effort == EFFORTS[-1]
    for number in range(4, 7):
        planner.update(number, 1.0, 20, rate=0.1)
    assert planner.effort == EFFORTS[0]
