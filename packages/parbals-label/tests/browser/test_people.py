"""Several people share the work, and see where they differ."""

import pytest
import served
from parbals_label.store.records import Submission
from parbals_label.store.replies import PaidReply, Replies
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_two_people_at_once_never_get_the_same_item(serve, person):
    server = serve("text")
    ada = person(server, "Ada")
    grace = person(server, "Grace")
    answered = []
    for _ in range(5):
        answered += [ada.label("1"), grace.label("2")]
    ada.saved()
    grace.saved()
    assert len(set(answered)) == 10
    assert set(server.labels("Ada").values()) == {"ham"}
    assert set(server.labels("Grace").values()) == {"spam"}
    assert len(server.labels("Ada")) == len(server.labels("Grace")) == 5


def test_the_name_can_be_changed_and_answers_carry_it(serve, person):
    server = serve("text")
    ada = person(server, "Ada")
    ada.label("1")
    ada.saved()
    ada.page.locator("#name-button").click()
    dialog = ada.page.get_by_role("dialog", name="Change your name")
    dialog.get_by_label("Your name").fill("Katherine")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator("#name-text")).to_have_text("Katherine")
    ada.label("2")
    ada.saved()
    assert list(server.labels("Ada").values()) == ["ham"]
    assert list(server.labels("Katherine").values()) == ["spam"]


def test_items_that_two_people_are_asked_about_reach_both(serve, person):
    server = serve("text")
    ada = person(server, "Ada")
    form = ada.go("settings")
    form.get_by_label("Answers per item").fill("2")
    form.get_by_role("button", name="Save").click()
    ada.says("Settings saved")
    ada.go("label")
    name = ada.label("1")
    ada.saved()
    grace = person(server, "Grace")
    assert grace.label("2") == name
    grace.saved()
    assert (server.labels("Ada")[name], server.labels("Grace")[name]) == ("ham", "spam")


def test_the_agreement_page_shows_kappa_and_the_items_in_dispute(serve, person):
    def differ(folder):
        served.label_some(folder, range(10), ("Ada", "Grace"), wrong=(3, 4))

    server = serve("text", prepare=differ)
    ada = person(server, "Ada")
    page = ada.go("agreement")
    rows = page.locator(".rows .row")
    expect(rows).to_have_count(2)
    # (0.8 - 0.52) / (1 - 0.52)
    expect(page.locator(".agreement-figures")).to_contain_text("Fleiss’ κ is 0.58", timeout=20_000)
    figures = page.locator(".agreement-figures")
    expect(figures.get_by_role("table")).to_contain_text("moderate")
    rows.first.click()
    dialog = ada.page.get_by_role("dialog")
    expect(dialog.locator(".history li")).to_have_count(2)
    dialog.get_by_label("Label", exact=True).select_option("ham")
    dialog.get_by_role("button", name="Correct my answer").click()
    expect(rows).to_have_count(1, timeout=20_000)
    expect(dialog.locator(".history li")).to_have_count(3)
    ada.saved()
    assert server.labels("Ada")["m03"] == "ham"


def test_the_agreement_page_says_whether_a_program_is_good_enough(serve, person):
    def by_program(folder):
        served.label_some(folder, range(10))
        with Store.open(folder) as store:
            labels = [Submission(position, "ham") for position in range(20)]
            store.submit(labels, annotator="machine:gpt", source="machine")

    ada = person(serve("text", prepare=by_program), "Ada")
    panel = ada.go("agreement").locator(".program-report")
    expect(panel).to_contain_text("Is machine:gpt good enough?", timeout=20_000)
    expect(panel.locator("li").first).to_contain_text("Good enough? Without a goal")
    expect(panel).to_contain_text("wrong in 4 of 10 answers that people checked")
    expect(panel).to_contain_text("alternative annotator test")
    notice = ada.go("overview").locator(".program-notice")
    expect(notice).to_contain_text("machine:gpt has given 20 labels. Its error is 40 %")
    expect(notice).to_contain_text("measured on 10 answers that people checked")


def test_the_overview_says_that_a_programs_error_is_not_known_and_offers_checks(serve, person):
    def by_program(folder):
        with Store.open(folder) as store:
            labels = [Submission(position, "ham") for position in range(20)]
            store.submit(labels, annotator="machine:gpt", source="machine")

    ada = person(serve("text", prepare=by_program), "Ada")
    notice = ada.go("overview").locator(".program-notice")
    expect(notice).to_contain_text("Its error is not known.", timeout=20_000)
    notice.get_by_role("button", name="Check 20 random answers of machine:gpt").click()
    expect(ada.page.locator("#toast")).to_contain_text("wait on the labelling page to be checked")


def test_the_name_of_a_program_is_not_broken_beside_long_words(serve, person):
    def by_program(folder):
        with Store.open(folder) as store:
            store.submit([Submission(0, "ham")], annotator="machine:gpt", source="machine")

    ada = person(serve("text", prepare=by_program), "Ada", locale="de-DE")
    name = ada.go("overview").get_by_role("rowheader", name="machine:gpt")
    expect(name.locator(".chip")).to_have_text("Programm", timeout=20_000)
    assert name.locator(".chip").evaluate("node => node.offsetHeight") < 30  # one line
    assert name.evaluate("node => node.offsetWidth") > 95


def test_an_owner_pauses_an_llm_and_sends_what_it_is_unsure_of_to_people(serve, person):
    def by_llm(folder):
        served.label_some(folder, range(4))
        with Store.open(folder) as store:
            rows = [
                Submission(p, "ham", comment='{"confidence": %.2f}' % (0.5 + p / 100))
                for p in range(20)
            ]
            store.submit(rows, annotator="machine:gpt", source="machine")
        with Replies(folder) as replies:
            paid = PaidReply("x", 100, 5, True, 0.01)
            replies.expect("key", "machine:gpt", "gpt", paid)

    server = serve("text", prepare=by_llm)
    ada = person(server, "Ada")
    notice = ada.go("overview").locator(".program-notice")
    expect(notice).to_contain_text("1 request, 100 tokens in and 5 out, cost 0.01", timeout=20_000)
    notice.get_by_role("button", name="Pause machine:gpt").click()
    expect(ada.page.locator("#toast")).to_contain_text("machine:gpt is paused")
    expect(notice).to_contain_text("machine:gpt (paused) has given 20 labels", timeout=20_000)
    with Store.open(server.folder, read_only=True) as store:
        assert store.settings.paused == ("machine:gpt",)
    notice.get_by_role("button", name="Resume machine:gpt").click()
    expect(notice.get_by_role("button", name="Pause machine:gpt")).to_be_visible(timeout=20_000)


def test_a_project_without_programs_has_no_notice_of_them(serve, person):
    ada = person(serve("text"), "Ada")
    page = ada.go("overview")
    expect(page.locator(".panel").first).to_be_visible()
    expect(page.locator(".program-notice")).to_be_hidden()
