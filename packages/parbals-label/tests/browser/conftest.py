"""Chromium driven through Playwright against the real server.

Skipped, with the reason, where either is missing.
"""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000  # Playwright's five seconds are too few beside other programs

# Without Playwright the files that drive the browser cannot even be imported; the smoke test then
# says what is missing.
if find_spec("playwright") is None:
    collect_ignore = [
        file.name for file in FOLDER.glob("test_*.py") if "playwright" in file.read_text("utf-8")
    ]


@pytest.fixture(scope="module")
def browser():
    """One Chromium for a file of tests: Playwright runs an event loop until it is closed."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """Projects that are made once; a test that changes one takes a copy."""
    pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    import served

    root = tmp_path_factory.mktemp("projects")
    folders = {}

    def get(kind):
        if kind not in folders:
            texts = {20: served.SCRIPT, 21: served.LONG}
            makers = {
                "text": lambda folder: served.text_project(folder),
                "odd": lambda folder: served.text_project(
                    folder, texts=texts, classes=("<i>ham</i>", "spam")
                ),
                "mail": served.mail_project,
                "many": lambda folder: served.text_project(folder, classes=served.MANY),
                "digits": lambda folder: served.text_project(folder, classes=[*"0123456789"]),
                "images": served.image_project,
                "numbered images": lambda folder: served.image_project(folder, names=""),
                "table": served.table_project,
                "wide": served.wide_project,
            }
            folders[kind] = makers[kind](root / kind)
        return folders[kind]

    return get


@pytest.fixture
def serve(projects, tmp_path, request):
    """``serve("text")``: a copy of a project, changed by ``prepare(folder)``, and its server.

    A file of tests that labels waiting items alone says ``NEEDS_WORKER = False``.
    """
    import served

    running = []
    worker = getattr(request.module, "NEEDS_WORKER", True)

    def start(kind, prepare=None, port=None):
        folder = shutil.copytree(projects(kind), tmp_path / kind)
        if prepare:
            prepare(folder)
        running.append(served.Served(folder, port, worker=worker))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def person(browser):
    """``person(server, "Ada")``: somebody at the page.

    At the end, nobody may have seen an error in the console.
    """
    from person import Person

    people = []

    def come(server, name="Ada", **how):
        people.append(Person(browser, server, name, **how))
        return people[-1]

    yield come
    for visitor in people:
        visitor.leave()
