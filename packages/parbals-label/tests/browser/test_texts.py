"""Every text of the page has a translation in every language, and no translation is left over."""

import ast
import json
import re
from importlib import import_module, resources
from pathlib import Path

import parbals
import parbals_label
import pytest

WEB = Path(str(resources.files("parbals_label.web")))
STATIC = WEB / "static"
COMMENT = re.compile(r"^\s*(//|/?\*).*$", re.M)
SCRIPTS = {
    path.name: COMMENT.sub("", path.read_text("utf-8")) for path in (STATIC / "js").glob("*.js")
}
CATALOGUES = {
    path.stem: json.loads(path.read_text("utf-8")) for path in (STATIC / "texts").glob("*.json")
}
LITERAL = r'"((?:[^"\\]|\\.)*)"'
FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
UNTRANSLATED = {  # keys, header names and names of formats: the same in every language
    *("Enter", "Escape", "Backspace", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"),
    *("Content-Type", "Content-Length", "Content-Disposition", "Retry-After", "X-Parbals-Key"),
    *("BroadcastChannel", "JSON lines", "Parquet", "DOMContentLoaded"),
    "Items of the target set ",  # the beginning of a sentence of the server
}

_STARTS_OF_PARTS = (
    r"the model trained on the first", r"corrected", r"words", r"\(the extra", r"on$",
    r"differ clearly", r"\(AUC", r"for$", r"and kept", r"are very different", r"differ somewhat",
    r"are hard to tell", r"far from every", r"Yes$", r"Yes;", r"Not shown", r"it replaces",
    r"standardise the", r"people's random", r"the model contradicts", r"less than",
    r"chosen at random", r"those it is least", r"and it labels the rest", r"draw some",
    r"found wrong", r"a fold", r"all l", r"minutes", r"hours", r"from the target",
    r"are labelled; label", r"changed afterwards", r"was not completed", r"but without",
    r"is installed", r"tree features", r"did not improve",
)  # fmt: skip
PARTS_OF_THEIR_OWN = re.compile(rf" (?={'|'.join(_STARTS_OF_PARTS)})")
"""Where the server joins parts of a sentence that stand at other places of the sources."""
SHOWN = {
    "parbals_label.project.program_report": ["ProgramReport"],
    "parbals_label.project.program_mix": ["Mix"],
    "parbals_label.project.program_drift": ["Drift"],
    "parbals_label.project.checks": ["Checks"],
    "parbals_label.project.pausing": ["set_paused"],
    "parbals_label.project.goal": [
        "_error_part",
        "goal_parts",
        "advice",
        "_goal_reached",
        "_only_labels_reached",
        "_goal_expected",
        "metric_lines",
    ],
    "parbals_label.project.label_issues": ["LabelIssue"],
    "parbals_label.project.log_lines": None,
    "parbals_label.project.samples": None,
    "parbals_label.project.summary": ["_features_line", "_sentence_encoder_hint"],
    "parbals_label.project.summary_lines": ["strategy_line", "audit_line"],
    "parbals_label.store.replies": ["Usage"],
    "parbals_label.web.map": None,
    "parbals_label.web.reasons": None,
    "parbals_label.web.session": None,
    "parbals_label.web.target": ["show_target"],
    "parbals_label.web.worker": None,
    "parbals.learner.reporting": ["_warnings"],
    "parbals.learner.evaluation.certify": ["Certificate"],
    "parbals.learner.evaluation.class_shift": ["ClassShift"],
    "parbals.learner.evaluation.fit_check": ["_CONSEQUENCE", "misfit_sentence"],
    "parbals.learner.evaluation.find": ["_advice", "estimate_recall"],
    "parbals.learner.evaluation.report": ["_advice", "metric_line", "measured_error_sentence"],
    "parbals.learner.evaluation.rmse": ["outlier_sentence"],
    "parbals.learner.evaluation.shift": ["Shift", "_LEVELS"],
    "parbals.posterior.closed.classes": ["ClassesPosterior"],
    "parbals.posterior.closed.sites": ["_convergence_problems"],
    "parbals.strategies.table": ["unused_target_sentence"],
    "parbals.wording": ["duration"],
}
"""Functions, classes and constants that write what the page shows; None stands for a whole module.

Not among them: errors of requests, and *Details* of a batch and its strategy; they stay English.
"""


def server_texts():
    listed = SCRIPTS["server_sentences.js"].split("SERVER_TEXTS = [")[1].split("];")[0]
    return [json.loads(f'"{text}"') for text in re.findall(LITERAL, listed)]


def used_keys():
    """The texts in the scripts, in the markup and in the pages before the sign-in."""
    keys = set(server_texts())
    for script in SCRIPTS.values():
        keys |= set(re.findall(rf"\b(?:t|pieces)\(\s*{LITERAL}", script))
    for page in STATIC.glob("*.html"):
        markup = page.read_text("utf-8")
        keys |= set(re.findall(r"<[^>]*\bdata-t\b(?!-)[^>]*>([^<]+)<", markup))
        keys |= set(re.findall(r'aria-label="([^"]+)" data-t-label', markup))
    for page in (WEB / "pages").glob("*.html"):
        keys |= set(re.findall(r"\[\[(.+?)\]\]", page.read_text("utf-8"))) - {"language"}
    return keys


def fields(text):
    return {name for name, _ in FIELD.findall(text)}


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_catalogue_has_exactly_the_texts_that_are_used(language):
    keys = used_keys()
    assert keys - set(CATALOGUES[language]) == set(), "without a translation"
    assert set(CATALOGUES[language]) - keys == set(), "no longer used"


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_translation_has_the_fields_of_its_text(language):
    for key, text in CATALOGUES[language].items():
        assert fields(text) == fields(key), key
        assert text.strip() == text != "", key
        for _, forms in FIELD.findall(text):
            assert forms == "" or "#" in forms, key


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_chinese_has_one_plural_form_and_the_others_have_two(language):
    expected = 1 if language == "zh" else 2
    for key, text in CATALOGUES[language].items():
        assert all(len(f.split("|")) == expected for _, f in FIELD.findall(text) if f), key


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_sentence_in_a_script_is_translated(name):
    """A literal that begins like a sentence stands in t(), pieces() or the server's list."""
    script = re.sub(rf"\b(?:t|pieces)\(\s*{LITERAL}", "", SCRIPTS[name])
    script = re.sub(r"SERVER_TEXTS = \[.*?\];", "", script, flags=re.S)
    sentences = re.findall(r'["`]([A-Z][a-z]+[^"`\n]*)["`]', script)
    assert set(sentences) - UNTRANSLATED == set()


def test_the_server_still_writes_the_sentences_that_the_page_translates():
    """Each literal part of a sentence occurs in the sources, in which a literal may be split."""
    sources = " ".join(
        path.read_text("utf-8")
        for package in (parbals, parbals_label)
        for path in Path(package.__file__).parent.rglob("*.py")
    )
    sources = re.sub(r"""["']\s*\n\s*f?["']""", "", sources)
    for text in server_texts():
        with_gaps = re.sub(r"measured (?=error|\{)|expected (?=\{)", "{source} ", text)
        for part in FIELD.sub("\0", with_gaps).split("\0"):
            for sentence in re.split(r"(?<=[.;]) |(?<=but the error) ", part):
                for phrase in PARTS_OF_THEIR_OWN.split(sentence.strip()):
                    assert phrase.strip(" .,();") in sources, text


def named_nodes(tree, names):
    """The definitions with these names, of any depth; all statements for None."""
    if names is None:
        return [tree]
    found = []
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        if getattr(target, "name", getattr(target, "id", None)) in names:
            found.append(node)
    return found


def literals(node):
    """Literal parts of the texts in a definition, without docstrings, errors and counted nouns."""
    is_noun = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "counted"
    if is_noun or isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not is_docstring:
            yield from literals(child)


@pytest.mark.parametrize("module", sorted(SHOWN))
def test_what_the_server_writes_for_the_page_can_be_translated(module):
    """Every phrase of these functions is a part of a text in the page's list."""
    keys = "\n".join(FIELD.sub("\0", key) for key in server_texts())
    tree = ast.parse(Path(import_module(module).__file__).read_text("utf-8"))
    nodes = named_nodes(tree, SHOWN[module])
    assert len(nodes) >= len(SHOWN[module] or [1]), "a name is no longer there"
    phrases = [text for node in nodes for text in literals(node)]
    missing = [
        phrase
        for text in phrases
        for phrase in re.split(r"(?<=[.;:]) ", text.strip(" .,;:()"))
        if re.search(r"[a-z]{2} [a-z%]", phrase)
        and phrase != "for training"
        and phrase.strip(" .,;:()") not in keys
    ]
    assert missing == [], missing
