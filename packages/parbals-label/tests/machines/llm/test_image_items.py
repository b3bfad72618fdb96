"""Items that are images are sent as data URLs."""

import base64
from threading import Event

import numpy as np
from chat_server import chat_server, completion
from parbals_label.machines.llm.asking import ChatModel
from parbals_label.machines.llm.endpoint import Endpoint
from parbals_label.machines.llm.project import estimate, make_prompts
from parbals_label.machines.loop import Rules, label_items
from parbals_label.project.features import store_features
from parbals_label.store.replies import Replies
from parbals_label.store.store import Store

PNG = b"\x89PNG\r\n\x1a\n"


def make_image_project(folder):
    """Four items: three images, and one whose file is missing."""
    settings = {
        "columns": ["path", "place"],
        "encoded_columns": ["path"],
        "encoder": "shapes",
        "media": str(folder.parent),
        "strategy": "random",
    }
    for number in range(3):
        (folder.parent / f"{number}.png").write_bytes(PNG + bytes([number]))
    with Store.create(folder, classes=["cat", "dog"], settings=settings) as store:
        rows = [(f"i{n}", {"path": f"{n}.png", "place": f"zoo {n}"}) for n in range(4)]
        store.add_items(rows)
        features = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
        store.update_settings(features=store_features(folder, features))
    return folder


def test_images_are_sent_and_a_missing_one_fails_alone(tmp_path):
    folder = make_image_project(tmp_path / "photos")

    def see(request, number):
        _, image = request.body["messages"][1]["content"]
        data = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
        return completion('{"label": "dog"}' if data[-1] == 1 else '{"label": "cat"}')

    said = []
    with chat_server(see) as server, Store.open(folder) as store, Replies(folder) as replies:
        model = ChatModel(Endpoint(server.url), "m", "machine:m", make_prompts(store), replies)
        rules = Rules(retries=0)
        result = label_items(store, "machine:m", model, rules, Event(), say=said.append)
        labels = {p: by["machine:m"] for p, by in store.current_labels().items()}
    assert labels == {0: "cat", 1: "dog", 2: "cat"}
    assert (result.stored, result.failed) == (3, 1)
    assert "image is not in the folder" in said[0]
    texts = [request.body["messages"][1]["content"][0]["text"] for request in server.seen]
    assert all("zoo" in text and ".png" not in text for text in texts)


def test_a_missing_image_does_not_stop_an_estimate(tmp_path):
    folder = make_image_project(tmp_path / "photos")
    with Store.open(folder) as store:
        assert estimate(store, None).n_items == 4
