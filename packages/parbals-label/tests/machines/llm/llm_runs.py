"""Runs of an LLM over a project, and a search for its key in everything that they leave behind."""

from threading import Event

from chat_server import KEY
from parbals_label.machines.llm.asking import ChatModel, Price
from parbals_label.machines.llm.endpoint import Endpoint
from parbals_label.machines.llm.project import make_prompts
from parbals_label.machines.loop import Rules, label_items
from parbals_label.store.replies import Replies
from parbals_label.store.store import Store

N = 12
PRICE = Price(1.0, 10.0)
COST = PRICE.cost(200, 8)
"""Of one reply of the server."""


def label_by(
    url, folder, *, batch_size=4, stop=None, timeout=20.0, budget=None, key=KEY, **options
):
    """Label a project by the server at an address: the result, and what was said."""
    said = []
    rules = Rules(batch_size=batch_size, retries=0, timeout=60.0, budget=budget)
    with Store.open(folder) as store, Replies(folder) as replies:
        model = ChatModel(
            Endpoint(url, key, timeout),
            "m",
            "machine:m",
            make_prompts(store),
            replies,
            **{"first_wait": 0.01, "price": PRICE, **options},
        )
        result = label_items(store, "machine:m", model, rules, stop or Event(), say=said.append)
        assert store.check() == []
        assert store.pending() == []
    return result, said


def labels_of(project):
    with Store.open(project, read_only=True) as store:
        return {
            position: by_annotator["machine:m"]
            for position, by_annotator in store.current_labels().items()
            if "machine:m" in by_annotator
        }


def parts_of_key(data, key=KEY):
    """Every eight characters of the key that are in a text, or in the bytes of a file."""
    text = data.decode("latin-1") if isinstance(data, bytes) else data
    windows = (key[start : start + 8] for start in range(len(key) - 7))
    return [window for window in windows if window.lower() in text.lower()]


def assert_no_key(*texts, folder):
    """No part of the key is in these texts, nor in any file of a folder."""
    for text in texts:
        assert parts_of_key(text) == [], text
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert parts_of_key(path.read_bytes()) == [], path
