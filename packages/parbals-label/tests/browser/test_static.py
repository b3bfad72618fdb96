"""Rules of the page's files that hold without a browser."""

import inspect
import re
from importlib import resources
from pathlib import Path

import pytest
from parbals_label.web import guard

STATIC = Path(str(resources.files("parbals_label.web"))) / "static"
FILES = {
    path.relative_to(STATIC).as_posix(): path.read_text("utf-8")
    for path in STATIC.rglob("*")
    if path.is_file()
}
PAGES = ("index.html", "projects.html")
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_data_never_becomes_markup_or_code(name):
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write"
    code = r"\beval\(|new Function|setAttribute\(\"style"
    assert re.findall(f"{markup}|{code}", SCRIPTS[name]) == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_comes_from_elsewhere(name):
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", FILES[name]))
    assert addresses <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_inline_script_style_or_handler(name):
    page = FILES[name]
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) == []


def test_every_file_that_is_named_exists_and_every_module_is_used():
    # The page that a link opens has one script, before there is a session.
    door = inspect.getsource(guard)
    pages = "".join(FILES[name] for name in PAGES)
    named = set(re.findall(r"\bstatic/([\w./-]+)", pages + door)) - {""}
    for name, text in SCRIPTS.items():
        imported = {f"js/{module}" for module in re.findall(r"from \"\./([\w.-]+)\"", text)}
        assert imported <= set(FILES), name
        named |= imported
    languages = re.search(r"LANGUAGES = \[(.+)\]", FILES["js/theme.js"])[1]
    translated = set(re.findall(r"\w+", languages)) - {"en"}  # English texts are their own keys
    named |= {f"texts/{language}.json" for language in translated}
    assert named == set(FILES) - set(PAGES)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_a_module_imports_is_exported(name):
    for names, module in re.findall(r"import \{([^}]+)\} from \"\./([\w.-]+)\"", SCRIPTS[name]):
        for wanted in (part.strip().split(" as ")[0] for part in names.split(",")):
            assert re.search(
                rf"export (?:async )?(?:function|class|const|let) {wanted}\b",
                SCRIPTS[f"js/{module}"],
            ), (wanted, module)
