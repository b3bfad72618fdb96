"""What is seen beside the work: map, curve, lists, settings, exports."""

import csv
import re
from contextlib import suppress

import pytest
import served
from parbals.wording import percent
from parbals_label.project.engine import refresh
from parbals_label.project.measuring import begin_measurement
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
SOON = 60_000  # the model is fitted by a process of its own, on one core


@pytest.fixture
def labelled(serve):
    """A project with ten labels by Grace."""
    return serve("text", prepare=lambda folder: served.label_some(folder, range(10)))


def test_progress_balance_error_and_advice_appear_by_themselves(labelled, person):
    ada = person(labelled)
    side = ada.page.locator(".side")
    expect(side).to_contain_text("10 of 60 labelled")
    ada.label("1")
    expect(side).to_contain_text("11 of 60 labelled", timeout=SOON)
    expect(
        side.get_by_role("img", name=re.compile("^Expected error: .* 90 % interval"))
    ).to_be_visible(timeout=SOON)
    expect(side.locator(".advice")).to_be_visible()
    ada.press("w")
    expect(ada.page.locator("#guess .bar-row")).to_have_count(2)


def test_a_random_item_measures_the_error_and_shows_no_guess(serve, person):
    def prepare(folder):
        served.label_some(folder, range(40), ("me",))
        with Store.open(folder) as store:
            store.update_settings(audit=list(range(4, store.n_items)))
            refresh(store)  # predictions are offered once there is a model

    ada = person(serve("text", prepare=prepare))
    expect(ada.page.locator(".why-sentence")).to_contain_text("Test item: chosen at random")
    ada.press("w")
    expect(ada.page.locator("#guess")).to_contain_text("Not shown for a test item")
    side = ada.page.locator(".side")
    expect(side).to_contain_text("36 of 56 test items")
    ada.label("1")
    expect(side).to_contain_text("With 95 % confidence the error is at most", timeout=SOON)
    expect(side.locator(".figure .source")).to_contain_text("measured with 4")


def leftmost(tab, canvas):
    """Where the leftmost item lies on the canvas; the map keeps 12 pixels free at its edges."""
    key = "{headers: {'X-Parbals-Key': localStorage.getItem('parbals:key')}}"
    reply = tab.evaluate(f"fetch('/api/map', {key}).then(reply => reply.json())")
    points = reply["points"]
    _, y = min(zip(points["x"], points["y"], strict=True))
    box = canvas.bounding_box()
    height = (y - min(points["y"])) / (max(points["y"]) - min(points["y"]))
    return {"x": 12, "y": box["height"] - 12 - height * (box["height"] - 24)}


def point_at_leftmost(tab, canvas, tip):
    """Point at that item as people do: if the map was drawn again meanwhile, look once more."""
    for _ in range(5):
        tab.mouse.move(1, 1)
        spot = leftmost(tab, canvas)
        canvas.hover(position=spot)
        with suppress(AssertionError):
            expect(tip).to_be_visible(timeout=2000)
            return spot
    raise AssertionError("pointing at the leftmost item showed nothing, five times")


def test_the_map_tells_items_by_colour_and_shape_and_shows_the_one_pointed_at(labelled, person):
    ada = person(labelled)
    ada.item()
    page = ada.go("overview")
    canvas = page.locator("canvas")
    expect(canvas).to_be_visible(timeout=SOON)
    page.get_by_label("Colours of the map").select_option("state")
    for name in ("labelled", "assigned", "queued", "unlabelled"):
        expect(page.locator(".legend")).to_contain_text(name)
    assert (
        len(
            set(
                page.locator(".legend svg > *").evaluate_all(
                    "marks => marks.map(mark => mark.outerHTML)"
                )
            )
        )
        >= 4
    )
    canvas.focus()
    ada.page.keyboard.press("ArrowRight")
    tip = page.locator(".map-tip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(re.compile("labelled|queued|assigned"))
    ada.page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    spot = point_at_leftmost(ada.page, canvas, tip)
    expect(tip.locator("span")).to_have_text(re.compile(r"\w+ \w+"))
    canvas.click(position=spot)
    expect(ada.page.get_by_role("dialog", name=re.compile("Item m"))).to_be_visible()


def test_browsing_filters_searches_and_corrects(labelled, person):
    ada = person(labelled, "Grace")
    page = ada.go("browse")
    rows = page.locator(".row")
    expect(page.locator(".summary")).to_have_text("40 of 60 items")
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(60)
    page.get_by_label("Show", exact=True).select_option("labelled")
    expect(rows).to_have_count(10)
    page.get_by_label("Label", exact=True).select_option("spam")
    expect(rows).to_have_count(4)
    page.get_by_label("Search").fill("prize")
    expect(rows).not_to_have_count(4)
    expect(rows.first).to_contain_text("prize")
    rows.first.click()
    dialog = ada.page.get_by_role("dialog")
    name = (
        dialog.get_by_role("heading", name=re.compile("Item ")).inner_text().removeprefix("Item ")
    )
    dialog.get_by_label("Label", exact=True).select_option("ham")
    dialog.get_by_label("Comment (optional)").fill("a real prize")
    dialog.get_by_role("button", name="Correct my answer").click()
    expect(dialog.locator(".history")).to_contain_text("a real prize")
    dialog.get_by_role("button", name="Close").click()
    ada.saved()
    assert labelled.labels("Grace")[name] == "ham"
    assert [answer.label for answer in labelled.answers("Grace") if answer.item_id == name] == [
        "spam",
        "ham",
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_export_is_a_file_with_the_labels(labelled, person, form, tmp_path):
    ada = person(labelled)
    page = ada.go("export")
    page.locator(f"input[value={form}]").check()
    with ada.page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    file = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(file)
    assert file.suffix == f".{form}"
    if form == "csv":
        with open(file, newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        assert {row["id"]: row["label"] for row in rows} == labelled.labels("Grace")
    else:
        assert len(file.read_text("utf-8").splitlines()) == 10
    expect(page.get_by_role("status")).to_contain_text("is in your downloads")


def test_an_export_that_takes_long_is_waited_for_and_seen_to_be_made(labelled, person):
    ada = person(labelled)
    page = ada.go("export")
    # What is slow for every other request is a fifth of a second here; the export comes after a
    # full one.
    ada.page.evaluate(
        "() => { const real = AbortSignal.timeout; "
        "AbortSignal.timeout = () => real.call(AbortSignal, 200); }"
    )
    held = []
    ada.context.route(re.compile("/api/export"), lambda route: held.append(route))
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("Preparing the file")
    ada.page.wait_for_timeout(1000)
    assert len(held) == 1
    with ada.page.expect_download() as waiting:
        held[0].continue_()
    assert waiting.value.suggested_filename == "text-labels.csv"
    expect(page.get_by_role("status")).to_contain_text("is in your downloads")
    expect(page.get_by_role("progressbar")).to_be_hidden()


def test_an_answer_given_under_browse_takes_the_item_off_the_desk(labelled, person):
    ada = person(labelled)
    name = ada.item()
    page = ada.go("browse")
    page.get_by_label("Show", exact=True).select_option("out")
    page.locator(".row", has_text=name).click()
    dialog = ada.page.get_by_role("dialog")
    dialog.get_by_label("Label", exact=True).select_option("spam")
    dialog.get_by_role("button", name="Add my answer").click()
    expect(dialog.locator(".history")).to_contain_text("Ada")
    ada.page.keyboard.press("Escape")
    ada.go("label")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {name}")
    assert labelled.labels("Ada") == {name: "spam"}


def test_as_many_answers_can_be_wanted_as_the_server_allows(labelled, person):
    ada = person(labelled)
    form = ada.go("settings")
    form.get_by_label("Answers per item").fill("100")
    form.get_by_role("button", name="Save").click()
    ada.says("Settings saved")
    with Store.open(labelled.folder, read_only=True) as store:
        assert store.settings.answers_wanted == 100
    form.get_by_label("Answers per item").fill("101")
    form.get_by_role("button", name="Save").click()
    assert form.get_by_label("Answers per item").evaluate("field => field.validity.rangeOverflow")


def test_a_share_is_written_as_reports_write_it(labelled, person):
    shares = [k / 1000 for k in range(-100, 1001)] + [1e-5, 0.99999, 0.123456]
    ada = person(labelled)
    words = ada.page.evaluate(
        "async shares => shares.map((await import('/static/js/dom.js')).percent)", shares
    )
    assert [word.replace("\u00a0", " ") for word in words] == [percent(share) for share in shares]


def test_a_single_report_shows_its_interval(labelled, person):
    """A band needs two reports; a stroke from the lower to the upper end stands for it."""
    ada = person(labelled)
    draw = """async history => {
        const { errorChart } = await import("/static/js/chart.js");
        const chart = errorChart(history, { height: 100 });
        const lines = [...chart.querySelectorAll(".band-line")].map(line => line.attributes);
        return [chart.querySelectorAll(".band").length, lines.map(l => [+l.y1.value, +l.y2.value])];
    }"""
    one = {"n_labels": 10, "created": "2026-01-01", "mean": 0.2, "low": 0.1, "high": 0.4}
    bands, ((low, high),) = ada.page.evaluate(draw, [one])
    assert bands == 0
    assert low - high == pytest.approx((100 - 10 - 24) * 0.3 / (1.05 * 0.4))  # of the drawn height
    assert ada.page.evaluate(draw, [one, one | {"n_labels": 20}]) == [1, []]


def test_a_button_stays_on_one_line_on_a_phone(labelled, person):
    ada = person(labelled, width=360, height=740, phone=True)
    button = ada.go("overview").get_by_role("button", name="Release the items")
    lines = """node => {
        const words = document.createRange();
        words.selectNodeContents(node);
        return words.getClientRects().length;
    }"""
    assert button.evaluate(lines) == 1


def test_no_tab_of_a_phone_breaks_a_word(labelled, person):
    ada = person(labelled, width=360, height=740, phone=True)
    ada.item()
    heights = "nodes => nodes.map((node) => node.getBoundingClientRect().height)"
    assert len(set(ada.page.locator(".tabs span").evaluate_all(heights))) == 1


def test_progress_is_seen_against_the_goal_that_people_set(labelled, person):
    ada = person(labelled)
    settings = ada.go("settings")
    settings.get_by_label("Goal: number of labels").fill("20")
    settings.get_by_label("Goal: error below").fill("2.5")
    settings.get_by_role("button", name="Save").click()
    expect(settings.get_by_text("Saved.", exact=True)).to_be_visible()
    ada.go("label")
    side = ada.page.locator(".side")
    expect(side).to_contain_text("Goal: 10 of 20 labels", timeout=SOON)
    expect(side).to_contain_text("Goal: an error below 2.5 %", timeout=SOON)
    expect(side.get_by_role("img", name="50 % of the goal")).to_be_visible()


def test_the_error_is_measured_by_so_many_items_as_one_wants_and_nobody_sees_what_is_predicted(
    labelled, person
):
    """Without a goal, with fewer than sixty items left; also when the panel asks again."""
    ada = person(labelled)
    side = ada.page.locator(".side")
    button = side.get_by_role("button", name="Measure the error")
    expect(button).to_be_enabled(timeout=SOON)
    button.click()
    dialog = ada.page.get_by_role("dialog")
    expect(dialog).to_contain_text("50 items can be drawn")  # those that this browser holds as well
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    button.click()
    dialog.get_by_label("Number of random items").fill("12")
    dialog.get_by_role("button", name="Draw them").click()
    ada.says("Label the next 12 items")
    expect(button).to_have_count(0, timeout=SOON)
    expect(side).to_contain_text("0 of the sample's 12 items")
    side.get_by_role("button", name="Undo the measurement").click()
    ada.says("The measurement is undone: its 12 items are ordinary ones again.")
    expect(button).to_be_enabled(timeout=SOON)
    button.click()
    dialog.get_by_role("button", name="Draw them").click()
    ada.says("Then the error is measured")
    expect(side).to_contain_text("of the sample's 50 items", timeout=SOON)
    sentence = ada.page.locator(".why-sentence")
    for _ in range(20):  # first the items that this browser holds already
        if "Test item" in sentence.text_content():
            break
        ada.label("1")
    expect(sentence).to_contain_text("until the whole sample is labelled")
    ada.press("w")
    guess = ada.page.locator("#guess")
    expect(guess).to_contain_text("Not shown for a test item")
    ada.page.wait_for_timeout(3_000)  # the panel has asked for the item once more
    expect(guess).to_contain_text("Not shown for a test item")
    expect(guess.locator(".bar-row")).to_have_count(0)


def test_the_measured_error_is_the_figure_and_the_models_own_stands_below(serve, person):
    def measure(folder):
        served.label_some(folder, range(10))
        with Store.open(folder) as store:
            refresh(store)
            number = begin_measurement(store, 12, queued=True)
            positions = store.batch_positions(number)
        served.label_some(folder, positions, people=("me",))

    ada = person(serve("text", prepare=measure))
    overview = ada.go("overview")
    panel = overview.locator(".panel", has=ada.page.get_by_text("Error", exact=True)).first
    figure = panel.locator(".figure")
    expect(figure).to_contain_text("measured with 10 labels; 12 labels are newer", timeout=SOON)
    expect(panel).to_contain_text("The model itself expects", timeout=SOON)
    expect(overview.locator(".panel").first).to_contain_text("22 of 60 labelled")


def test_the_prediction_is_offered_once_there_is_a_model(serve, person):
    ada = person(serve("text"))
    ada.item()
    button = ada.page.locator(".why button")
    expect(button).to_be_hidden()
    ada.press("w")
    expect(ada.page.locator("#guess")).to_be_hidden()
    for _ in range(4):
        ada.label("1")
        ada.label("2")
    expect(button).to_be_visible(timeout=SOON)


def test_the_counter_follows_answers_that_come_fast(labelled, person):
    """Each answer asks for the progress soon; the next one must not put that off for ever."""
    ada = person(labelled)
    ada.item()
    ada.page.wait_for_timeout(1_000)
    requests = []
    ada.page.on("request", lambda request: requests.append(request.url))
    ada.page.evaluate(
        """async () => {
            const script = document.querySelector("script[type=module]").src;
            const { emit } = await import(script.replace("main.js", "state.js"));
            for (let i = 0; i < 40; i++) {
                emit("shown");
                await new Promise((resolve) => setTimeout(resolve, 100));
            }
        }"""
    )
    assert len([url for url in requests if "/api/live" in url]) > 1


def test_settings_are_shared_and_highlighted_words_are_marked(labelled, person):
    ada = person(labelled)
    form = ada.go("settings")
    form.get_by_label("Words to highlight").fill("dinner, mee*\nnoon")
    form.get_by_label("Guidelines").fill("Spam sells.\nHam does not.")
    form.get_by_role("button", name="Save").click()
    ada.says("Settings saved")
    with Store.open(labelled.folder, read_only=True) as store:
        assert store.settings.highlight == ("dinner", "mee*", "noon")
    grace = person(labelled, "Grace")
    grace.item()
    grace.press("g")
    expect(grace.page.locator(".guideline-text")).to_have_text("Spam sells.\nHam does not.")
    page = grace.go("browse")
    page.get_by_label("Search").fill("meeting")
    expect(page.locator(".row mark").first).to_have_text("meeting")
    expect(page.locator(".row").first.locator("mark")).to_have_count(2)
