"""The page in the visitor's language, which the browser tells or the visitor chooses."""

import re

import pytest
from message_data import truth
from parbals.learner.evaluation.class_shift import ClassShift
from parbals.learner.evaluation.shift import Shift
from parbals.types import Estimate
from parbals_label.cli.options import update_report
from parbals_label.project.alternative_test import AlternativeTest
from parbals_label.project.checks import Checks
from parbals_label.project.program_drift import Drift
from parbals_label.project.program_errors import CheckedError
from parbals_label.project.program_mix import Mix
from parbals_label.project.program_report import ProgramReport
from parbals_label.project.program_shares import ClassShare, ProgramShares
from parbals_label.store.records import EXPORTED, Submission
from parbals_label.store.replies import Usage
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_page_speaks_the_browsers_language_and_the_one_that_is_chosen(serve, person):
    server = serve("text")
    ada = person(server, "Ada", locale="de-AT")
    page = ada.page
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.locator(".item-place")).to_have_text(re.compile(r"Element \S"))
    expect(page.locator(".why-sentence")).to_have_text(re.compile("^(Ein|Das Modell) "))
    expect(page.locator(".tabs")).to_contain_text("Einstel\u00adlungen")
    expect(page.locator(".class-name").first).to_have_text("ham")  # classes are not translated
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("diese Hilfe zeigen")
    page.keyboard.press("Escape")
    page.wait_for_timeout(250)
    page.keyboard.press("2")
    expect(page.locator("#saved-text")).to_have_text("Gespeichert")
    expect(page.locator(".side")).to_contain_text("1 von 60 gelabelt")
    ada.go("settings").get_by_label("Sprache").select_option("中文")
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.get_by_role("heading", name="此浏览器")).to_be_visible()
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    page.get_by_label("语言").select_option("English")
    expect(page.get_by_role("heading", name="This browser")).to_be_visible()
    ada.go("browse")
    expect(page.locator("#view-browse .summary")).to_have_text("40 of 60 items")


def test_a_visitor_without_a_link_is_told_so_in_their_language(serve, browser):
    server = serve("text")
    context = browser.new_context(locale="fr-CA")
    page = context.new_page()
    page.goto(server.address("label"))
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.get_by_role("heading")).to_have_text("Lien de connexion requis")
    context.close()


def test_what_the_server_writes_for_owners_is_translated(serve, person):
    """A measured error, the features and the log, in sentences that follow each other."""

    def measured(folder):
        with Store.open(folder) as store:
            store.update_settings(audit=list(range(20)))
            store.submit([Submission(p, truth(p)) for p in range(20)], annotator="me")
            store.submit([Submission(p, truth(p)) for p in range(20, 40)], annotator="Ada")
            update_report(store)
            store.log(EXPORTED, format="model", labelled_only=False)

    ada = person(serve("text", measured), "Ada", locale="de-DE")
    error = ada.go("overview").locator(".panel", has_text="gemessen").first
    expect(error).to_contain_text("Mit 95 % Konfidenz liegt der Fehler bei höchstens")
    expect(error).to_contain_text("20 der 20 Testelemente sind gelabelt. Gelabelt von me (20)")
    expect(ada.page.locator("#view-overview")).to_contain_text("Encoder: words (das Extra")
    log = ada.go("settings").locator(".log tbody tr")
    expect(log.filter(has_text="Modell exportiert")).to_have_count(1)
    expect(log.filter(has_text="angemeldet bei 127.0.0.1")).to_have_count(1)
    ada.page.get_by_label("Sprache").select_option("中文")
    words = ada.go("overview").locator(".panel").filter(has_text="置信度").first
    expect(words).to_contain_text("20 个测试条目中已标注 20 个。标注者：me (20)")
    expect(words).not_to_contain_text("random items")


def program_sentences():
    """What the server says of an LLM that labels, with everything known that can be known."""
    name = "machine:gpt"
    share = Estimate(0.805, 0.7, 0.9)
    report = ProgramReport(
        annotator=name,
        n_labels=1_200,
        n_items=5_000,
        n_people=60,
        n_unlabelled=3_800,
        error=CheckedError.of(60, 6, is_random=False),
        test=AlternativeTest(n_people=3, n_beaten=1, advantage=0.7, passed=False),
        usage=Usage(name, "gpt", 1_200, 51_000, 1_900, 0.0234, 2, 3),
        goal_error=0.05,
        shares=ProgramShares(1_140, 60, [ClassShare("ham", 0.9, share)]),
        mix=Mix(0.05, 900, 700, 0.81, 60, 1.5, 0.2, 4_940),
        drift=Drift(400, 0.0001, 0.2, by_people=True),
    )
    usage = f"{report.usage.amounts}."
    return [*report.lines, usage, Checks(name, [1, 2]).sentence]


def target_sentences():
    """What the server says of a target set that differs from the pool."""
    class_shift = ClassShift("spam", 0.2, Estimate(0.5, 0.4, 0.6), 0.001)
    return [Shift(auc, 300).sentence for auc in (0.55, 0.7, 0.9, 0.99)] + [class_shift.sentence]


def test_reports_on_programs_and_warnings_are_translated_whole(serve, person):
    page = person(serve("text"), "Ada", locale="de-DE").page
    translate = """async (texts) => {
        const { translated } = await import("/static/js/server_texts.js");
        return texts.map(translated);
    }"""
    sentences = [*program_sentences(), *target_sentences()]
    german = page.evaluate(translate, sentences)
    for text, translation in zip(sentences, german, strict=True):
        assert not re.search(r"\b(the|of|it|are|and|items|answers|by)\b", translation), text
    said = " ".join(german)
    assert "ham 80,5 % (70 % bis 90 %)" in said
    assert "1.200 Anfragen, ≈ 51.000 Tokens hinein und 1.900 heraus, Kosten ≈ 0,0234" in said
    assert "<0,1 %" in said


def test_four_german_words_fit_below_the_classes_of_a_phone(serve, person):
    server = serve("text")
    page = person(server, "Ada", locale="de-DE", width=390, height=844, phone=True).page
    expect(page.locator(".tools")).to_contain_text("Rückgängig")
    tops = "nodes => nodes.map((node) => node.getBoundingClientRect().top)"
    assert len(set(page.locator(".tools > .tool").evaluate_all(tops))) == 1
