"""Label Studio's own pages, in a browser: tasks look right.

The pictures of the guide go to the folder named by PARBALS_PICTURES, else nowhere.
"""

import csv
import os
import re
import shutil
from pathlib import Path

import pytest
from parbals_bench.datasets.sms_spam import load_messages
from parbals_label.project.create import Roles, create_project
from studio import until

pytestmark = pytest.mark.label_studio
SHOWN = ("id", "message", "parbals_batch", "parbals_rank", "parbals_score")


@pytest.fixture
def page(studio, admin):
    """A tab of somebody who is logged in."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=program, args=flags)
        context = browser.new_context(viewport={"width": 1280, "height": 620})
        context.add_cookies(
            [{"name": c.name, "value": c.value, "url": studio.url} for c in admin.session.cookies]
        )
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        yield tab
        browser.close()


@pytest.fixture
def shoot(page, tmp_path):
    def take(name):
        file = Path(os.environ.get("PARBALS_PICTURES", tmp_path)) / f"label-studio-{name}.png"
        page.wait_for_timeout(2000)
        page.screenshot(path=file)
        assert 5_000 < file.stat().st_size < 300_000

    return take


def test_the_pages(studio, admin, supply, page, shoot, tmp_path):
    messages = load_messages()
    data = tmp_path / "messages.csv"
    folder = tmp_path / "spam"
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["message"])
        writer.writerows([text] for text in messages.texts[:400])
    roles = Roles(text=("message",))
    create_project(folder, data, roles, ["ham", "spam"], {"strategy": "parbals-epig"})
    project = admin.new_project("Text messages")
    supply(folder, project, n=12)
    for task in admin.tasks(project):
        label = messages.labels[int(task["data"]["parbals_item"]) - 1]
        admin.annotate(task["id"], str(label))
    supply(folder, project, n=12)

    columns = admin.call("GET", f"dm/columns/?project={project}")["columns"]
    others = [f"tasks:{c['id']}" for c in columns if c["id"] not in (*SHOWN, "data")]
    others += ["tasks:data.parbals_project", "tasks:data.parbals_item"]
    unlabelled = {"filter": "filter:tasks:total_annotations", "operator": "equal"}
    unlabelled |= {"type": "Number", "value": 0}
    view = {"title": "Most useful first", "hiddenColumns": {"explore": others, "labeling": []}}
    view |= {"filters": {"conjunction": "and", "items": [unlabelled]}, "ordering": ["tasks:id"]}
    admin.call("POST", "dm/views/", json={"project": project, "data": view})
    page.goto(f"{studio.url}/projects/{project}/data")
    page.get_by_text("parbals_rank").first.wait_for()
    shoot("tasks")

    open_task = next(task for task in admin.tasks(project) if not task["annotations"])
    page.goto(f"{studio.url}/projects/{project}/data?task={open_task['id']}")
    page.get_by_text("Submit", exact=True).wait_for()
    shoot("task")
    page.get_by_text(re.compile(r"^ham(\[\d\])?$")).first.click()  # with its hotkey, or without
    page.get_by_text("Submit", exact=True).click()
    name = open_task["data"]["parbals_item"]
    until(lambda: name in supply(folder, project, n=2).labels)
