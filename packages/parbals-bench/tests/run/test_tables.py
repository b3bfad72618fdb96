"""Tables as text: marks for the best, and names that stay text in LaTeX and HTML."""

import re

import pytest
from bench_helpers import records_of, results_of
from parbals_bench.report.tables import text_table, to_html, to_latex

AIRLINE = {
    "random": (0.80, 0.81, 0.82),
    "confidence": (0.88, 0.89, 0.90),
    "parbals-epig": (0.89, 0.90, 0.91),
}
NASTY = r"a|b <i>c</i> *d* _e_ `f` $\q$ [g](h) ~~i~~ &amp; \ # ^ {j} 5%"


def table(name):
    return text_table(f"On {name}", (name,), {name: ("1",)})


@pytest.fixture(scope="module")
def heuristics():
    return results_of(records_of(AIRLINE)).tables["accuracy"][1]


def test_best_is_underlined_and_among_the_top_is_bold(heuristics):
    latex = to_latex(heuristics)
    html = to_html(heuristics)
    # s = 1 point, n = 3: the half-width is 4.3027 / √3
    assert r"\underline{$\mathbf{90.00 \pm 2.48}$}" in latex
    assert r"Random & $81.00 \pm 2.48$" in latex
    assert r"Highest mean underlined; bold if Welch's p $\geq$ 0.05 against it." in latex
    assert latex.count("{") == latex.count("}")
    assert "<u><b>90.00 ± 2.48</b></u>" in html
    assert "<td><b>89.00 ± 2.48</b>" in html
    assert "Random</th><td>81.00 ± 2.48</td>" in html


@pytest.mark.parametrize("name", [NASTY, r"back\|slash", "two\nlines", "#", "\\"])
def test_html_shows_the_text_as_it_is(name):
    html = to_html(table(name))
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f'<p class="title">On {shown}</p>' in html
    cells = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", html, re.DOTALL)
    assert cells == ["", shown, shown, "1"]


def test_latex_has_no_bare_special_character():
    latex = to_latex(table(r"a\b^c~d&e%f$g#h_i{j}k<l>m|n"))
    expected = (
        r"a\textbackslash{}b\textasciicircum{}c\textasciitilde{}d\&e\%f\$g\#h\_i\{j\}k"
        r"\textless{}l\textgreater{}m\textbar{}n"
    )
    assert f" & {expected} \\\\" in latex
    assert f"On {expected}" in latex


def test_a_bracket_does_not_belong_to_the_end_of_the_row_above():
    assert "\n{[}x] & 1" in to_latex(table("[x]"))


def test_the_title_stands_outside_the_box_that_scrolls():
    html = to_html(table("a < b"))
    assert html.index('<p class="title">On a &lt; b</p>') < html.index('class="scroll"')
    assert "<caption>" not in html
    assert '<table aria-label="On a &lt; b">' in html
