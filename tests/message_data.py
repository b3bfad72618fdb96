"""Made-up messages and their true labels, by number."""

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
