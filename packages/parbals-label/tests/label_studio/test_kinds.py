"""What tasks hold: pictures, items of an audit; the command."""

import json

import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals_label.project.create import Roles, create_project
from parbals_label.store.store import Store
from studio import CONFIG

pytestmark = pytest.mark.label_studio


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Ten drawn circles and squares, in a project of their own."""
    from PIL import Image, ImageDraw

    root = tmp_path_factory.mktemp("pictures")
    (root / "shapes" / "some").mkdir(parents=True)
    for number in range(10):
        picture = Image.new("RGB", (96, 64), (236, 232, 224))
        draw = ImageDraw.Draw(picture)
        shape = draw.ellipse if number % 2 else draw.rectangle
        shape([20 + number, 10, 60 + number, 50], fill=(20, 110, 140))
        picture.save(root / "shapes" / "some" / f"picture {number}.png")
    settings = {"strategy": "margin"}
    create_project(
        root / "shapes-project", root / "shapes", Roles(), ["circle", "square"], settings
    )
    return root


def test_pictures_are_given_to_the_server(studio, admin, people, pictures, supply):
    project = admin.new_project("Shapes")
    folder = pictures / "shapes-project"
    supply(folder, project, n=4)
    tasks = admin.tasks(project)
    assert len(tasks) == 4
    for task in tasks:
        address = task["data"]["image"]
        shown = people[0].session.get(studio.url + address, timeout=60)
        name = task["data"]["parbals_item"]
        with Store.open(folder, read_only=True) as store:
            (item,) = store.items(store.position_of([name]))
        assert shown.content == (pictures / "shapes" / item.content["image"]).read_bytes()
    people[0].annotate(tasks[0]["id"], "circle")
    assert supply(folder, project, n=4).result.labels == 1


def test_the_command(studio, admin, folder, key):
    project = admin.new_project("Command", CONFIG)
    arguments = ["label-studio", "connect", str(folder), "--url", studio.url]
    arguments += ["--project", str(project), "--once", "-n", "2"]

    def connect(key, *options):
        environment = {"LABEL_STUDIO_API_KEY": key}
        return CliRunner().invoke(parbals, [*arguments, *options], env=environment)

    first = connect(key)
    assert first.exit_code == 0, (first.output, first.exception)
    assert "2 tasks created" in first.output
    assert key not in first.output
    assert json.loads(connect(key, "--json").stdout)["created"] == 0
    assert "does not accept the key" in str(connect("wrong").exception)
    without_key = connect(None)
    assert "environment variable LABEL_STUDIO_API_KEY" in str(without_key.exception)


def test_a_short_lived_token_is_renewed(studio, admin, key):
    from parbals_label.label_studio.client import Client

    project = admin.new_project("Renewed", CONFIG)
    client = Client(studio.url, key)
    client.project(project)
    expired = client._access_token[:-6] + "AAAAAA"  # as if its five minutes were over
    client._access_token = expired
    assert client.project(project).id == project
