"""A person's day on the page: labels, the labels that the model doubts, corrections, an export.

PARBALS_WALK sets how many items are labelled. Pictures go to the folder named by PARBALS_PICTURES.
"""

import csv
import os
import random
import re
from pathlib import Path

import parbals
import pytest
import served
from click.testing import CliRunner
from parbals_label.cli.results import export
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
N_ITEMS = 400
N_LABELS = int(os.environ.get("PARBALS_WALK", "50"))
SOON = 90_000
TOPICS = {
    "computers": "browser database compiler router crash password update kernel",
    "cooking": "dough butter garlic risotto bake cinnamon soup recipe",
    "finance": "shares bank bonds inflation profit merger rates insurer",
    "health": "patients asthma migraine doctor vaccine sleep nurse diabetes",
    "music": "violin concerto album quartet choir festival solo jazz",
    "politics": "senate budget election treaty minister vote reform coalition",
    "science": "telescope galaxy protein genome particle comet fossil laser",
    "sport": "goal derby penalty coach league final injury referee",
    "travel": "ferry beach luggage hotel passport island train guidebook",
    "weather": "rain storm fog frost snow wind flood sunshine",
}


def sentences(classes, seed=0):
    """Texts with the class that most of their words are of."""
    draw = random.Random(seed)
    texts = []
    for number in range(N_ITEMS):
        own = classes[number % len(classes)]
        other = draw.choice(classes)
        words = draw.sample(TOPICS[own].split(), 4) + draw.sample(TOPICS[other].split(), 1)
        draw.shuffle(words)
        texts.append((f"About {' and '.join(words)}, number {number}.", own))
    return texts


@pytest.fixture
def shoot():
    """``shoot(page, name)``: a picture where somebody wants to look at it."""
    folder = os.environ.get("PARBALS_PICTURES")
    return lambda page, name: folder and page.screenshot(path=Path(folder) / f"walk-{name}.png")


@pytest.mark.parametrize("n_classes", [2, 10])
def test_labels_doubts_corrections_and_what_is_taken_home(n_classes, tmp_path, person, shoot):
    classes = sorted(TOPICS)[:n_classes]
    texts = sentences(classes)
    folder = tmp_path / "walk"
    served.text_project(
        folder, N_ITEMS, classes, range(N_LABELS), {i: text for i, (text, _) in enumerate(texts)}
    )
    truth = {f"m{number:02d}": label for number, (_, label) in enumerate(texts)}
    server = served.Served(folder)
    wrong = {}
    try:
        ada = person(server)
        for number in range(N_LABELS):
            name = ada.item()
            place = (classes.index(truth[name]) + (number % 10 == 9)) % n_classes
            if number % 10 == 9:
                wrong[name] = classes[place]
            ada.label(str((place + 1) % 10))
        ada.saved()
        shoot(ada.page, f"{n_classes}-label")
        page = ada.go("overview")
        expect(page).not_to_contain_text("newer labels are not included", timeout=SOON)
        progress = page.locator(".panel", has_text="Progress").first
        expect(progress).to_contain_text("were chosen by")
        assert not re.search(r"\d %", progress.inner_text()), "a line may end before the sign"
        shoot(ada.page, f"{n_classes}-overview")
        page = ada.go("browse")
        page.get_by_label("Show", exact=True).select_option("doubted")
        expect(page.locator(".row").first).to_be_visible(timeout=SOON)
        shoot(ada.page, f"{n_classes}-doubted")
        doubted = page.locator(".row-id").all_inner_texts()
        marked = [name for name in doubted if name in wrong]
        assert marked, "none of the wrong labels is doubted"  # which ones depends on the pace
        for name in marked[:10]:
            page.locator(".row", has_text=name).first.click()
            dialog = ada.page.locator("dialog[open]")
            dialog.get_by_label("Label", exact=True).select_option(truth[name])
            dialog.get_by_role("button", name="Correct my answer").click()
            expect(dialog.locator(".history li")).to_have_count(2, timeout=SOON)
            dialog.get_by_role("button", name="Close").click()
        ada.saved()
        page.get_by_label("Show", exact=True).select_option("labelled")
        page.get_by_label("Sort").select_option("doubt")
        row = page.locator(".row", has=ada.page.locator(".row-guess")).first
        expect(row).to_be_visible(timeout=SOON)
        guess, chip = (row.locator(part).bounding_box() for part in (".row-guess", ".label-chip"))
        assert abs(guess["y"] + guess["height"] / 2 - chip["y"] - chip["height"] / 2) < 4
        shoot(ada.page, f"{n_classes}-sorted")
        ada.go("export")
        shoot(ada.page, f"{n_classes}-export")
        with ada.page.expect_download() as download:
            ada.page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "labels.csv")
    finally:
        server.stop()
    with open(tmp_path / "labels.csv", encoding="utf-8-sig") as file:
        taken = {row["id"]: row["label"] for row in csv.DictReader(file)}
    left = {name: label for name, label in wrong.items() if name not in marked[:10]}
    assert taken == {name: left.get(name, truth[name]) for name in server.labels("Ada")}
    assert len(taken) == N_LABELS
    model = tmp_path / "model.npz"
    result = CliRunner().invoke(export, [str(folder), "--model", str(model)])
    assert result.exit_code == 0, result.output
    predicted = parbals.load_model(model).predict([text for text, _ in texts])
    right = sum(a == b for a, (_, b) in zip(predicted, texts, strict=True))
    assert right > 0.6 * N_ITEMS
