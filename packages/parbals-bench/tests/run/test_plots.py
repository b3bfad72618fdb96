"""Pictures: what they do with odd names and far-off values, and that nothing in them is lost."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from parbals.strategies.table import STRATEGIES, strategy_title
from parbals_bench.report.plots import (
    Curve,
    curve_figure,
    inline_svg,
    savings_figure,
    styles_of,
    to_png,
    to_svg,
)
from parbals_bench.report.tasks import Line


def curve(strategy, end, title=None, n_seeds=2):
    values = np.linspace(0.7, end, 11) + 0.01 * np.arange(n_seeds)[:, None]
    return Curve(title or strategy_title(strategy), strategy, range(100, 301, 20), values)


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.text]


@pytest.fixture(scope="module")
def figure():
    odd = r"mine $\q$ a_b^c \frac"
    curves = [curve("random", 0.8, n_seeds=5), curve("epig", 0.9), curve(odd, 0.7, odd)]
    return curve_figure(curves, r"Airline: price $\q$")


def test_a_dollar_in_a_name_is_a_dollar(figure):
    svg = inline_svg(figure, "a", 'A < "B"')
    assert any(r"Airline: price $\q$  ·  Test accuracy, %" in text for text in texts(svg))
    assert any(r"mine $\q$ a_b^c \frac" in text for text in texts(svg))
    shares = savings_figure({Line("epig"): [0.3], Line("$x^2$"): [0.2]})
    assert "$x^2$" in texts(to_svg(shares, text_as_text=True))


def test_the_legend_is_in_the_order_of_the_ends(figure):
    legend = [text for text in texts(inline_svg(figure, "a", "")) if text.endswith(("0", "5"))]
    ends = [text for text in legend if text.startswith(("EPIG", "Random", "mine"))]
    assert [text.split()[0] for text in ends] == ["EPIG", "Random", "mine"]


def test_pictures_are_the_same_every_time(figure):
    again = curve_figure([curve("random", 0.8), curve("epig", 0.9)], "x")
    once = curve_figure([curve("random", 0.8), curve("epig", 0.9)], "x")
    assert to_png(again) == to_png(once)
    assert to_svg(again) == to_svg(once)


def test_inline_pictures_do_not_share_names_and_say_what_they_show(figure):
    one, two = (
        ElementTree.fromstring(inline_svg(figure, prefix, 'A < "B"')) for prefix in ("a", "b")
    )
    assert one.attrib["aria-label"] == 'A < "B"'
    ids = [{x.attrib["id"] for x in svg.iter() if "id" in x.attrib} for svg in (one, two)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


def test_curves_beside_the_others_are_thin_and_dotted():
    beside = Curve("EPIG, 20 at a time", "epig", [100, 300], np.array([[0.7, 0.8]]), faint=True)
    figure = curve_figure([curve("epig", 0.9, n_seeds=5), beside], "x")
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert lines["EPIG, 20 at a time"].get_linestyle() == ":"
    assert lines["EPIG"].get_linestyle() == "-"
    assert lines["EPIG"].get_linewidth() > lines["EPIG, 20 at a time"].get_linewidth()


@pytest.mark.parametrize("kind", ["bayesian", "heuristics"])
def test_lines_of_one_picture_differ_without_colour(kind):
    styles = styles_of([name for name, row in STRATEGIES.items() if kind in row.tables])
    assert len({(dashes, marker) for _, dashes, marker, _ in styles}) == len(styles) > 8


def test_variants_of_one_strategy_can_be_told_apart():
    styles = styles_of(["random", "parbals-epig", "parbals-epig", "elsewhere"])
    assert len({(dashes, marker) for _, dashes, marker, _ in styles}) == 4


class TestLabelsSaved:
    def test_the_median_of_every_strategy_the_best_on_top(self):
        svg = to_svg(
            savings_figure({Line("epig"): [1 / 3, 0.3, 0.4], Line("bald"): [-0.5]}),
            text_as_text=True,
        )
        assert "+33 %" in svg
        assert svg.index("BALD") < svg.index("EPIG")

    def test_dots_below_all_labels_stand_at_the_edge(self):
        far = savings_figure({Line("coreset"): [-1.7, -1.9], Line("epig"): [-0.1, 0.1]})
        assert far.axes[0].get_xlim()[0] == -104.0
        assert "-100 %" in texts(to_svg(far, text_as_text=True)) or "−100 %" in texts(
            to_svg(far, text_as_text=True)
        )

    def test_fewer_settings_than_others_are_said(self):
        shares = {Line("batchbald"): [0.1], Line("epig"): [0.3, 0.2]}
        words = texts(to_svg(savings_figure(shares), text_as_text=True))
        assert {"BatchBALD (1)", "EPIG"} <= set(words)
        assert "in brackets: the number of settings, where it is not 2" in words
