"""The datasets, models and strategies of the study `promises`."""

__all__ = ["MODELS", "ROWS", "STRATEGIES", "TEXTS", "TUNED_ON"]

ROWS = {
    "airline": "airline passengers: satisfied or not",
    "airline-class:*": "airline passengers: class of travel",
    "airline-age:*": "airline passengers: age in seven groups",
    "credit-card": "credit card fraud",
    "digits:*": "handwritten digits",
    "cifar10:*": "CIFAR-10, ten classes",
    "ag-news": "AG News, world or not, by words",
}
"""Sets of :mod:`lib.rows` → what they are."""
TEXTS = {
    "news-4": "AG News, four classes",
    "sms-2": "SMS spam",
    "films-2": "films praised or not",
    "films-5": "films, five ratings",
    "tweets-3": "tweets: glad, sad or neither",
    "places-4": "where a sentence is from",
    "shop-5": "products, five ratings",
    "editorials-3": "editorials: for, against or neither",
    "fortunes-6": "topic of an epigram",
}
"""Sets of texts, whose names end in the number of classes → what they are."""
TUNED_ON = (*ROWS, "news-4", "sms-2")
"""The constants of the report were tuned on these sets; on the last two with other features."""
MODELS = ("default", "forest", "adapted")
STRATEGIES = ("random", "parbals-epig", "margin")
