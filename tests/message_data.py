"""Made-up messages and their true labels, by number."""

import csv
import random

SPAM = ("win a cash prize now", "claim your free prize", "urgent call this number to claim")
HAM = (
    "see you at home",
    "are we still on for dinner",
    "ok talk later",
    "the meeting moved to noon",
)


def message(i):
    generator = random.Random(i)
    words = SPAM if i % 3 == 0 else HAM
    return f"{generator.choice(words)} {generator.randint(0, 99)}"


def truth(i):
    return "spam" if i % 3 == 0 else "ham"


def write_messages(path, n=60, labels=None):
    """A table of n messages; ``labels`` names a column that holds the truth of every fifth."""
    rows = [["id", "message", *([labels] if labels else [])]]
    for i in range(n):
        rows.append([i, message(i), *([truth(i) if i % 5 == 0 else ""] if labels else [])])
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
