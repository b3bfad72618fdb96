"""A small encoder as a third party would write one, and a process to kill while it runs."""

import sys
import time

import numpy as np
from parbals_label.encoders import (
    ENCODERS,
    BadItem,
    Encoder,
    Entry,
    Options,
    embed,
    embedding,
    load_encoder,
)

NAME = "letters"
TEXTS = [f"message {i} {'spam ' * (i % 7)}{chr(97 + i % 26)}" for i in range(90)]


class Letters(Encoder):
    """How often each byte occurs, projected to 8 numbers."""

    kind = "text"

    def __init__(self, version="1", pause=0.0):
        self.model = f"letters {version}"
        self.pause = pause
        self.encoded = []
        self._directions = np.random.default_rng(int(version)).standard_normal((256, 8))

    def prepare(self, item):
        if item.startswith("BAD"):
            raise BadItem("it says so itself")
        return item

    def size(self, prepared):
        return len(prepared)

    def encode(self, prepared):
        time.sleep(self.pause)
        self.encoded += prepared
        counts = np.stack(
            [
                np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=256)
                for text in prepared
            ]
        )
        return (np.log1p(counts) @ self._directions).astype(np.float32)


ENTRY = Entry(lambda name, options: Letters(), "text")


def named(texts):
    return lambda: ((f"row {i}", text) for i, text in enumerate(texts))


if __name__ == "__main__":
    ENCODERS[NAME] = ENTRY
    encoder = load_encoder(NAME, Options(), "text")
    encoder.pause = float(sys.argv[1])
    embedding.BLOCK = 10
    embed(encoder, NAME, named(TEXTS), len(TEXTS), Options(batch_size=4))
