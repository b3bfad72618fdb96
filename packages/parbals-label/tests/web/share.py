"""How much of what people label the project's strategy chose, and how much its stand-in.

A real server and its worker, and people who answer after a set time; nothing here is asserted,
since it depends on the machine:

    python packages/parbals-label/tests/web/share.py --people 10 --classes 10 --seconds 2
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from page_server import Server
from parbals_label.project.features import store_features
from parbals_label.store.store import Store


def make_data(folder, n_items, n_classes, n_features, seed):
    """Clusters that overlap: their true classes."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((n_classes, n_features)) * 0.7
    truth = generator.integers(n_classes, size=n_items)
    rows = centres[truth] + generator.standard_normal((n_items, n_features))
    classes = [f"class {number}" for number in range(n_classes)]
    settings = {"columns": ["text"], "encoded_columns": ["text"], "encoder": "words"}
    settings |= {"prior_scale": "auto", "loss": "error"}
    with Store.create(folder, classes=classes, settings=settings) as store:
        store.add_items((f"m{n}", {"text": f"message {n}"}) for n in range(n_items))
        store.update_settings(features=store_features(Path(folder), rows.astype(np.float32)))
    return [classes[number] for number in truth]


def person(server, name, truth, seconds, end):
    """Holds four items, as the page does, and answers one at a time."""
    held = []
    while time.monotonic() < end:
        if len(held) < 4:
            asked = server.post("/api/take", {"annotator": name, "n": 4})
            known = {item["position"] for item in held}
            held += [item for item in asked.json["items"] if item["position"] not in known]
        if not held:
            time.sleep(0.2)
            continue
        time.sleep(seconds)
        position = held.pop(0)["position"]
        server.label(name, position, truth[position])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"people": 10, "classes": 10, "items": 3000, "features": 50}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in {"seconds": 2.0, "minutes": 1.5}.items():
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        truth = make_data(folder, given.items, given.classes, given.features, given.seed)
        server = Server(folder)
        end = time.monotonic() + 60 * given.minutes
        people = [
            threading.Thread(target=person, args=(server, f"p{n}", truth, given.seconds, end))
            for n in range(given.people)
        ]
        for one in people:
            one.start()
        for one in people:
            one.join()
        server.stop()
        with Store.open(folder, read_only=True) as store:
            chosen = store.chosen_by()
            sizes = [len(record.items) for record in store.batches()]
            own = store.settings.strategy
    total = sum(chosen.values())
    shares = {name: f"{n / total:.0%}" for name, n in chosen.items()}
    print(f"{shares} of {total} labels, {own} is the project's; batches of {sizes}")  # noqa: T201


if __name__ == "__main__":
    main()
