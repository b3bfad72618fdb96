"""Which pictures there are, and what they do with odd names and far-off values."""

import re
import xml.etree.ElementTree as ElementTree
from importlib import resources

import pytest
from bench_helpers import records_of

from parbals.bench.report.collect import Line, collect
from parbals.bench.report.findings import overview, savings
from parbals.bench.report.names import BAYESIAN, device_name, styles_of
from parbals.bench.report.pictures import ONE_VS_ALL, draw_pictures
from parbals.bench.report.plots import curve_figure, inline_svg, savings_figure, to_png, to_svg
from parbals.bench.spec import Settings

TWO = {"random": (0.8, 0.8), "epig": (0.9, 0.9)}


def texts(figure):
    return [
        element.text
        for element in ElementTree.fromstring(to_svg(figure, text_as_text=True)).iter()
        if element.text
    ]


@pytest.mark.parametrize("name", [r"price $\q$", "$x^2$", "$", "a_b^c \\frac"])
def test_a_dollar_in_a_class_is_a_dollar(name):
    (setting,) = collect(records_of({**TWO, "mine $\\q$": (0.7, 0.7)}, positive=name))
    figure = curve_figure(setting, ("random", "epig", "mine $\\q$"))
    assert to_png(figure)
    assert any(f"Airline: {name}" in text for text in texts(figure))
    assert any("Mine $\\q$" in text for text in texts(figure))
    (plain,) = collect(records_of({**TWO, "mine $\\q$": (0.7, 0.7)}))
    assert "Mine $\\q$" in texts(savings_figure(savings([plain])))
    ElementTree.fromstring(inline_svg(figure, "f", name))


def test_all_classes_have_a_picture_among_the_main_ones():
    settings = collect(
        [*records_of(TWO, positive="*"), *records_of(TWO), *records_of(TWO, positive="a b")]
    )
    pictures = draw_pictures(settings)[1:]
    assert [picture.group for picture in pictures] == [
        "Budget 100 + 10×20",
        "Budget 100 + 10×20",
        ONE_VS_ALL,
    ]
    assert pictures[0].name == "airline-all-classes-100+10x20-all-strategies"


def test_no_picture_replaces_another():
    records = [
        record for name in ("a b", "a-b", "a/b") for record in records_of(TWO, positive=name)
    ]
    names = [picture.name for picture in draw_pictures(collect(records))]
    assert len(set(names)) == len(names) == 3


def test_variants_without_a_baseline_have_curves_that_can_be_told_apart():
    records = records_of({"random": (0.8, 0.8)})
    for m in (5, 20):
        records += records_of({"parbals-epig": (0.9, 0.9)}, settings=Settings(n_universes=m))
    (setting,) = collect(records)
    figure = curve_figure(setting, BAYESIAN)
    assert sum(text.startswith("ParBaLS EPIG (m = ") for text in texts(figure)) == 2
    styles = styles_of([line.strategy for line in setting.lines()])
    assert len({(style.dashes, style.marker) for style in styles}) == 3
    assert "ParBaLS EPIG (m = 5)" in texts(savings_figure(savings([setting])))


class TestOverview:
    def test_one_label_at_a_time_does_not_rank(self):
        settings = collect([*records_of(TWO), *records_of(TWO, budget="100+200x1")])
        found = savings(settings)
        assert [saving.setting.budget.batch for saving in found] == [20, 1]
        assert [saving.setting.budget.batch for saving in overview(found)] == [20]
        assert overview(found[1:]) == found[1:]  # where there is nothing else

    def test_dots_beyond_the_edge_are_counted(self):
        # Random: 70 to 90 % in 200 labels. CoreSet ends at 71 %, which Random has after 10: -190 of
        # 110 labels.
        records = [
            record
            for name in ("airline", "yelp")
            for record in records_of(
                {"random": (0.9, 0.9), "coreset": (0.71, 0.71), "epig": (0.89, 0.89)}, name
            )
        ]
        figure = savings_figure(savings(collect(records)))
        assert texts(figure).count("2 further left") == 1
        near = savings_figure(
            [saving for saving in savings(collect(records)) if saving.line == Line("epig")]
        )
        assert not re.search("further left", to_svg(near, text_as_text=True))

    def test_who_has_fewer_settings_says_so(self):
        records = [*records_of({**TWO, "batchbald": (0.85, 0.85)}), *records_of(TWO, "yelp")]
        found = texts(savings_figure(savings(collect(records))))
        assert {"BatchBALD (1)", "EPIG"} <= set(found)
        assert "in brackets: the number of settings, where it is not 2" in found
        assert not any(
            "in brackets" in text
            for text in texts(savings_figure(savings(collect(records_of(TWO)))))
        )


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("cpu: cpu", "CPU"),
        ("gpu: NVIDIA H200", "NVIDIA H200 (GPU)"),
        ("tpu: TPU v4", "TPU v4"),
        (None, "an unknown device"),
    ],
)
def test_devices_in_words(device, name):
    assert device_name(device) == name


def test_on_a_phone_pictures_keep_readable_letters_and_scroll():
    css = resources.files("parbals.bench").joinpath("report.css").read_text("utf-8")
    assert re.search(r"figure \{[^}]*overflow-x: auto", css)
    # 9 inches are 648 points: at 50rem = 800 px, letters of 8.5 points are 10 px high.
    assert "figure.wide svg { min-width: 50rem; }" in css
    assert re.search(r"max-width: 34rem\) \{.*figure svg \{ min-width: 34rem; \}", css)
