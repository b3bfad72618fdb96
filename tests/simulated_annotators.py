"""Clouds of items of two or more classes, and annotators of a given accuracy who label them."""

import numpy as np

__all__ = ["CLASSES", "make_clouds", "noisy_answers", "tell", "three_copies"]

CLASSES = ["a", "b"]


def make_clouds(seed, n_items=300, n_classes=2, separation=2.5, n_columns=5):
    """Clouds of items and their classes."""
    generator = np.random.default_rng(seed)
    true = generator.integers(n_classes, size=n_items)
    centres = separation * np.eye(n_classes, n_columns)
    return centres[true] + generator.standard_normal((n_items, n_columns)), true, generator


def noisy_answers(generator, true, accuracy, n_classes=2):
    """Answer each item with its class, or with probability 1 - ``accuracy`` with another one."""
    other = (true + generator.integers(1, n_classes, size=len(true))) % n_classes
    return np.where(generator.random(len(true)) < accuracy, true, other)


def tell(learner, items, numbers, **options):
    learner.tell(items, [CLASSES[c] for c in numbers], **options)


def three_copies(generator, true):
    """Three copies of one bad annotator beside two good ones."""
    positions = np.arange(160)
    copied = noisy_answers(generator, true[:160], 0.6)
    answers = {f"copy {j}": (positions, copied) for j in range(3)}
    for name, accuracy in (("ada", 0.9), ("bob", 0.8)):
        answers[name] = positions, noisy_answers(generator, true[:160], accuracy)
    return answers
