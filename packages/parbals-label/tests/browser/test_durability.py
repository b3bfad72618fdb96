"""No label is lost or doubled, whatever happens to the server, the network and the laptop."""

import re
from contextlib import suppress

import pytest
from parbals_label.store.store import Store
from playwright.sync_api import Error, expect

pytestmark = pytest.mark.browser


def waiting(tab):
    """How many entries the browser keeps for the server."""
    return tab.evaluate(
        "Object.keys(localStorage).filter(key => key.startsWith('parbals:out:')).length"
    )


def test_answers_given_while_the_server_is_dead_arrive_after_its_restart(serve, person):
    server = serve("text")
    ada = person(server)
    before = ada.label("1")
    ada.saved()
    server.kill()
    offline = [ada.label("2"), ada.label("1")]
    expect(ada.page.locator("#saved-text")).to_have_text("Offline, 2 unsent")
    ada.says("kept in this browser")
    expect(ada.page.locator("#notices")).to_contain_text("The server cannot be reached")
    server.start()
    ada.says("The server is back")
    ada.saved()
    expect(ada.page.locator(".notice")).to_have_count(0)
    assert server.labels("Ada") == {before: "ham", offline[0]: "spam", offline[1]: "ham"}
    assert len(server.answers("Ada")) == 3
    ada.label("1")
    ada.saved()
    assert len(server.answers("Ada")) == 4


def test_answers_outlive_a_closed_browser_tab(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    offline = ada.label("2")
    assert waiting(ada.page) == 1
    ada.page.close()
    server.start()
    ada.page = ada.tab()
    ada.saved()
    assert server.labels("Ada") == {offline: "spam"}
    assert waiting(ada.page) == 0


def test_a_confirmation_lost_on_the_way_does_not_double_the_answer(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    lost = []

    def swallow(route):
        if len(lost) < 2:
            lost.append(route.fetch().status)  # stored, but the page never hears of it
            route.abort()
        else:
            route.continue_()

    ada.context.route(re.compile("/api/answers"), swallow)
    answered = ada.label("2")
    ada.saved()
    assert lost == [200, 200]
    assert [(answer.item_id, answer.label) for answer in server.answers("Ada")] == [
        (answered, "spam")
    ]


def test_an_undo_whose_confirmation_is_lost_is_done_once(serve, person):
    server = serve("text")
    ada = person(server)
    kept = ada.label("1")
    taken_back = ada.label("2")
    ada.saved()
    lost = []

    def swallow(route):
        if len(lost) < 2:
            lost.append(route.fetch().status)
            route.abort()
        else:
            route.continue_()

    ada.context.route(re.compile("/api/undo"), swallow)
    ada.press("z")
    expect(ada.page.locator(".item-place")).to_have_text(f"Item {taken_back}")
    ada.saved()
    assert lost == [200, 200]
    assert server.labels("Ada") == {kept: "ham"}
    assert [answer.label for answer in server.answers("Ada")] == ["ham", "spam", None]


def test_undo_while_offline_keeps_the_order(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    answered = ada.label("2")
    ada.press("z")
    expect(ada.page.locator(".item-place")).to_have_text(f"Item {answered}")
    ada.label("1")
    server.start()
    ada.saved()
    assert server.labels("Ada") == {answered: "ham"}


def test_a_clock_set_back_keeps_the_order(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    answered = ada.label("2")
    ada.page.evaluate("() => { const now = Date.now; Date.now = () => now() - 3_600_000; }")
    ada.press("z")
    expect(ada.page.locator(".item-place")).to_have_text(f"Item {answered}")
    ada.label("1")
    server.start()
    ada.saved()
    assert [answer.label for answer in server.answers("Ada")] == ["spam", None, "ham"]


def test_what_cannot_be_read_is_set_aside_and_hides_nothing(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    answered = ada.label("2")
    ada.page.evaluate(
        """() => {
            localStorage.setItem("parbals:out:000:first", '{"kind": "ans');
            localStorage.setItem("parbals:out:zzz:last", "null");
        }"""
    )
    server.start()
    ada.page.reload()
    expect(ada.page.locator("#notices")).to_contain_text("2 unsent answers are damaged")
    ada.saved()
    assert server.labels("Ada") == {answered: "spam"}
    assert waiting(ada.page) == 0
    aside = (
        "['000:first', 'zzz:last'].map(name => localStorage.getItem(`parbals:unreadable:${name}`))"
    )
    assert ada.page.evaluate(aside) == ['{"kind": "ans', "null"]
    ada.page.get_by_role("button", name="Dismiss").click()
    expect(ada.page.locator(".notice")).to_have_count(0)


def test_an_answer_the_server_stumbles_over_does_not_hold_up_the_others(serve, person):
    server = serve("text")
    ada = person(server)
    bad = ada.item()
    tries = []

    def stumble(route):
        if f'"position":{int(bad.removeprefix("m"))},' in route.request.post_data:
            tries.append(route.request.post_data)
            route.fulfill(
                status=500, json={"error": {"code": "bug", "message": "The server made a mistake."}}
            )
        else:
            route.continue_()

    ada.context.route(re.compile("/api/answers"), stumble)
    ada.label("1")
    other = ada.label("2")
    expect(ada.page.locator(".notice")).to_contain_text(
        "failed on the server several times", timeout=30_000
    )
    expect(ada.page.locator("#saved-text")).to_have_text("1 unresolved")
    assert server.labels("Ada") == {other: "spam"}
    assert len(tries) == 5
    assert len(set(tries)) == 1  # the same request id every time
    assert waiting(ada.page) == 1
    ada.context.unroute(re.compile("/api/answers"))
    ada.page.get_by_role("button", name="Retry", exact=True).click()
    ada.saved()
    expect(ada.page.locator(".notice")).to_have_count(0)
    assert server.labels("Ada") == {other: "spam", bad: "ham"}


def test_two_tabs_hold_different_items_and_both_count(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    other = ada.tab()
    assert ada.item(other) != ada.item()
    answered = [ada.label("1"), ada.label("2", other), ada.label("1"), ada.label("2", other)]
    ada.saved()
    ada.saved(other)
    assert len(set(answered)) == 4
    assert sorted(server.labels("Ada")) == sorted(answered)
    assert len(server.answers("Ada")) == 4


def test_a_stale_tab_that_contradicts_asks_which_answer_holds(serve, person):
    server = serve("text")
    ada = person(server)
    name = ada.item()
    position = int(name.removeprefix("m"))
    # The same person answers the item from elsewhere, and this page has not heard of it.
    label = {"position": position, "label": "ham", "request_id": "from-elsewhere"}
    key = ada.page.evaluate("localStorage.getItem('parbals:key')")
    stored = ada.context.request.post(
        f"http://127.0.0.1:{server.port}/api/answers",
        data={"annotator": "Ada", "answers": [label]},
        headers={"Origin": f"http://127.0.0.1:{server.port}", "X-Parbals-Key": key},
    )
    assert stored.status == 200
    ada.label("2")
    notice = ada.page.locator(".notice")
    expect(notice).to_contain_text("already labelled")
    expect(ada.page.locator("#saved-text")).to_have_text("1 unresolved")
    assert server.labels("Ada") == {name: "ham"}
    ada.page.reload()
    notice.get_by_role("button", name="Change it to spam").click()
    ada.saved()
    expect(notice).to_have_count(0)
    assert server.labels("Ada") == {name: "spam"}


def test_a_lost_lease_is_said_and_another_item_comes(serve, person):
    server = serve("text")
    ada = person(server)
    name = ada.item()
    server.kill()
    with Store.open(
        server.folder
    ) as store:  # while the laptop sleeps, the lease runs out and Grace gets the items
        store.release("Ada", range(store.n_items))
        assert name in {
            store.items([lease.position])[0].id for lease in store.take("Grace", 10, 3600)
        }
    expect(ada.page.locator("#saved-text")).to_have_text("Offline", timeout=20_000)
    server.start()
    ada.says("that item went to someone else")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {name}")
    answered = ada.label("1")
    ada.saved()
    assert server.labels("Ada") == {answered: "ham"}


def test_the_back_button_leaves_no_answer_behind(serve, person):
    server = serve("text")
    ada = person(server)
    ada.go("overview")
    ada.go("label")
    answered = [ada.label("1"), ada.label("2")]
    ada.page.go_back()
    expect(ada.page.locator("#view-overview")).to_be_visible()
    ada.page.go_forward()
    answered.append(ada.label("1"))
    ada.saved()
    assert sorted(server.labels("Ada")) == sorted(answered)


def test_items_of_a_page_that_is_left_go_to_others_at_once(serve, person):
    server = serve("text")
    ada = person(server)
    name = ada.item()
    ada.page.goto("about:blank")
    grace = person(server, "Grace")
    assert grace.item() == name


FOUR_ITEMS_CLAIMED = """() => Object.keys(localStorage).some((key) =>
    key.startsWith("parbals:tab:") && JSON.parse(localStorage.getItem(key)).positions.length === 4)
"""


def test_after_a_crash_of_the_browser_the_same_items_are_there_at_once(serve, person):
    """The browser frees the locks of a tab that crashed; a busy machine takes a while to do so."""
    served = serve("text")
    ada = person(served)
    ada.label("1")
    ada.saved()
    before = ada.item()
    ada.page.wait_for_function(FOUR_ITEMS_CLAIMED)
    with ada.page.expect_event("crash"), suppress(Error):
        ada.page.goto("chrome://crash")
    health = ada.tab_at(f"http://127.0.0.1:{served.port}/healthz")
    health.wait_for_function("navigator.locks.query().then(({ held }) => held.length === 0)")
    ada.page = ada.tab_at(served.address())  # once: a reload would release the items
    assert ada.item() == before


def test_answers_never_reach_another_project_at_the_same_address(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    offline = ada.label("1")
    other = serve("mail", port=server.port)
    # A second tab makes the link of the other project good for both; the first still shows the old
    # one.
    second = ada.tab_at(other.link)
    expect(ada.page.locator("#notices")).to_contain_text(
        "now serves another project, mail", timeout=30_000
    )
    second.close()
    assert ada.item().startswith("m"), "an item of the other project came onto the old desk"
    assert other.labels("Ada") == {}
    ada.page.get_by_role("button", name="Go to mail").click()
    expect(ada.page.locator("#notices")).to_contain_text(
        "1 unsent answer in this browser for another project"
    )
    ada.label("2")
    ada.saved()
    assert list(other.labels("Ada").values()) == ["drop"]
    other.kill()
    server.start()
    ada.page.goto(server.link)
    ada.saved()
    assert server.labels("Ada") == {offline: "ham"}


def test_a_browser_that_keeps_nothing_is_told_to_stay(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    ada.page.evaluate(
        "() => { Storage.prototype.setItem = "
        "() => { throw new DOMException('full', 'QuotaExceededError'); }; }"
    )
    stored = ada.label("1")
    ada.saved()
    server.kill()
    unsent = ada.label("2")
    expect(ada.page.locator("#notices")).to_contain_text(
        "Leave the page open until everything is saved"
    )
    server.start()
    ada.saved()
    assert server.labels("Ada") == {stored: "ham", unsent: "spam"}


def test_a_new_token_keeps_the_answers_and_says_what_to_do(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    server.kill()
    offline = ada.label("2")
    (server.folder / "page-token").unlink()
    server.start()
    expect(ada.page.locator("#notices")).to_contain_text("link is no longer valid", timeout=20_000)
    notices = ada.page.locator("#notices")
    expect(notices).to_contain_text("will be sent when you have signed in again")
    expect(notices).not_to_contain_text("You can continue")
    expect(ada.page.locator("#saved-text")).to_have_text("1 unsent")
    ada.page.goto(server.link)
    ada.saved()
    assert server.labels("Ada") == {offline: "spam"}
