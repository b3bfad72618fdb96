"""What users call their classes stays text in Markdown, LaTeX and HTML."""

import re

import pytest
from markdown_it import MarkdownIt

from parbals.bench.report.render import TextTable, to_html, to_latex, to_markdown

NASTY = r"a|b <i>c</i> *d* _e_ `f` $\q$ [g](h) ~~i~~ &amp; \ # ^ {j} 5%"


def table(name):
    return TextTable(f"On {name}", ("", name), ((name, "1"),))


@pytest.mark.parametrize("name", [NASTY, r"back\|slash", "two\nlines", "#", "\\"])
def test_markdown_shows_the_text_as_it_is(name):
    html = (
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(to_markdown(table(name)))
    )
    shown = (
        " ".join(name.split("\n")).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    assert f"<h3>On {shown}</h3>" in html
    assert re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", html) == ["", shown, shown, "1"]


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
