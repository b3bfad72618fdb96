"""Many people at once: exact counts, no lock error, nothing twice; in full with ``-m faults``."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from dose import small_and_full
from page_server import make_project, page
from parbals_label.server.rate_limits import RateLimiter
from parbals_label.store.store import Store


def at_once(*calls):
    """Run all at the same moment; what they returned."""
    gate = threading.Barrier(len(calls))

    def run(call):
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def answers(folder):
    """Every answer of a project after it was closed and opened again."""
    with Store.open(folder) as store:
        assert store.check() == []
        return [answer for position in range(store.n_items) for answer in store.history(position)]


@pytest.fixture(autouse=True)
def no_pace(monkeypatch):
    """These people are faster than any: how fast they may be is tried elsewhere."""
    monkeypatch.setattr(RateLimiter, "admit", lambda *amounts, **more: None)


@pytest.mark.parametrize("races", small_and_full(15, 500))
def test_two_people_never_get_the_same_item_and_both_may_answer_it(tmp_path, races):
    folder = make_project(tmp_path / "p", n_items=2 * races, queued=2 * races)
    with page(folder) as server:
        for race in range(races):
            one, two = at_once(lambda: server.take("ann"), lambda: server.take("bob"))
            assert len({*one, *two}) == 2, "each has an item of their own"
            results = at_once(
                lambda item=one[0], request=f"a{race}": server.label("ann", item, "ham", request),
                lambda item=one[0], request=f"b{race}": server.label("bob", item, "spam", request),
            )
            assert [result.json["stored"][0]["outcome"] for result in results] == ["new", "new"]
            server.label("bob", two[0], "spam", f"c{race}")
    held = answers(folder)
    assert len(held) == 3 * races
    assert Counter(answer.annotator for answer in held) == {"ann": races, "bob": 2 * races}


@pytest.mark.parametrize("clicks", small_and_full(15, 200))
def test_a_double_click_counts_once_and_two_labels_of_one_person_conflict(tmp_path, clicks):
    folder = make_project(tmp_path / "p", n_items=2 * clicks, queued=0)
    with page(folder) as server:
        for click in range(clicks):
            same = [lambda click=click: server.label("ann", click, "ham", f"r{click}")] * 2
            outcomes = sorted(result.json["stored"][0]["outcome"] for result in at_once(*same))
            assert outcomes == ["new", "repeated"]
            position = clicks + click
            results = at_once(
                lambda item=position: server.label("ann", item, "ham", f"h{item}"),
                lambda item=position: server.label("ann", item, "spam", f"s{item}"),
            )
            assert sorted(result.status for result in results) == [200, 409]
    assert len(answers(folder)) == 2 * clicks


@pytest.mark.parametrize("tabs", small_and_full(10, 200))
def test_a_stale_tab_is_told_of_the_other_tabs_label_and_loses_nothing(tmp_path, tabs):
    folder = make_project(tmp_path / "p", n_items=tabs, queued=tabs)
    with page(folder) as server:
        for tab in range(tabs):
            (position,) = server.take("ann")
            assert server.take("ann") == [position], "both tabs show it"
            assert server.label("ann", position, "ham", f"first{tab}").status == 200
            late = server.label("ann", position, "spam", f"late{tab}")
            assert (late.status, late.json["error"]["held"]) == (409, "ham")
            server.post("/api/release", {"annotator": "ann", "positions": [position]})
            assert server.mine("ann", [position]) == []
    held = answers(folder)
    assert [answer.label for answer in held] == ["ham"] * tabs


@pytest.mark.parametrize("leases", small_and_full(10, 100))
def test_an_expired_lease_goes_to_the_next_person_and_a_late_answer_still_counts(tmp_path, leases):
    folder = make_project(tmp_path / "p", n_items=leases, queued=leases)
    with page(folder) as server:
        for lease in range(leases):
            (position,) = server.take("ann")
            with Store.open(folder) as store:  # the clock, moved on
                store.renew("ann", [position], -1.0)
            assert server.take("bob") == [position]
            assert server.mine("ann", [position]) == []
            late = server.label("ann", position, "ham", f"late{lease}")
            assert late.json["stored"][0]["outcome"] == "new"
            assert server.label("bob", position, "spam", f"bob{lease}").status == 200
        assert server.get("/api/live").json["out"] == 0
    held = answers(folder)
    assert Counter((answer.annotator, answer.label) for answer in held) == {
        ("ann", "ham"): leases,
        ("bob", "spam"): leases,
    }


@pytest.mark.parametrize(("people", "labels"), small_and_full((8, 15), (50, 200)))
def test_a_crowd_labels_at_once_with_exact_counts(tmp_path, people, labels):
    folder = make_project(tmp_path / "p", n_items=people * labels, queued=people * labels)
    with page(folder) as server:

        def work(number):
            name = f"person {number}"
            mine = []
            while len(mine) < labels:
                for position in server.take(name, min(3, labels - len(mine))):
                    result = server.label(
                        name, position, "ham" if position % 2 else "spam", f"{number}-{position}"
                    )
                    assert result.status == 200, result.body
                    mine.append(position)
            return mine

        with ThreadPoolExecutor(people) as pool:
            done = list(pool.map(work, range(people)))
    held = answers(folder)
    assert sorted(position for mine in done for position in mine) == list(range(people * labels)), (
        "each item once"
    )
    assert len(held) == people * labels
    assert all(answer.label == ("ham" if answer.position % 2 else "spam") for answer in held)
    assert {answer.position for answer in held if answer.annotator == "person 0"} == set(done[0])
