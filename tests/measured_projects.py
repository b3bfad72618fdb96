"""A project of which the truth and the predictions are known, and nothing has to be trained."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from parbals_label.project.features import store_features
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

CLASSES = ("ham", "spam")


def truth(position):
    """The class that everybody agrees on."""
    return CLASSES[position % 2]


def make_measured(folder, n_items, wrong=(), **settings):
    """A project of ``n_items`` whose predictions are right but for the ``wrong`` positions."""
    remembered = {"columns": ["text"], "encoded_columns": ["text"], "encoder": "words"}
    with Store.create(folder, classes=CLASSES, settings=remembered | settings) as store:
        add_predicted(store, n_items, wrong)
    return Path(folder)


def add_predicted(store, n_new, wrong=()):
    """Add items, with features of all and predictions that are wrong for these positions."""
    first = store.n_items
    names = range(first, first + n_new)
    store.add_items((f"m{number:03d}", {"text": f"message {number}"}) for number in names)
    rows = np.random.default_rng(0).standard_normal((store.n_items, 4)).astype(np.float32)
    store.update_settings(features=store_features(store.folder, rows))
    is_spam = np.arange(store.n_items) % 2 == 1
    is_spam[list(wrong)] ^= True
    probs = np.where(is_spam, 0.9, 0.1)
    matrix = np.stack([1.0 - probs, probs], axis=1).astype(np.float32)
    written = store_features(store.folder, matrix, name="predictions")
    predictions = PredictionsFile(**asdict(written), answers=store.revision()[0])
    store.update_settings(predictions=predictions)


def label(store, positions, annotator, *, opposite=False, **more):
    """Give items their true labels, or the others, as on the page."""
    submissions = [
        Submission(
            position,
            CLASSES[(position + opposite) % 2],
            request_id=f"{annotator}:{position}:{store.revision()[0]}",
        )
        for position in positions
    ]
    store.submit(submissions, annotator=annotator, **more)


def skip(store, positions, annotator):
    for position in positions:
        store.pass_over(position, "skip", annotator=annotator)
