"""What strategies are called in tables and how they are drawn: one line each, told apart without
colour too."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ALL_CLASSES",
    "BAYESIAN",
    "HEURISTICS",
    "KINDS",
    "Style",
    "dataset_name",
    "device_name",
    "strategy_name",
    "style_of",
    "styles_of",
]

ALL_CLASSES = "*"
"""In the place of a positive class: the dataset with all its classes."""

BAYESIAN = (
    "random",
    "bald",
    "power-bald",
    "softmax-bald",
    "softrank-bald",
    "batchbald",
    "epig",
    "power-epig",
    "softmax-epig",
    "softrank-epig",
    "parbals-map-epig",
    "parbals-epig",
)
HEURISTICS = (
    "random",
    "confidence",
    "margin",
    "entropy",
    "coreset",
    "badge",
    "glister",
    "galaxy",
    "parbals-map-epig",
    "parbals-epig",
)
KINDS = {"Bayesian methods": BAYESIAN, "ParBaLS and the heuristics": HEURISTICS}
"""The paper's two kinds of table."""

_NAMES = {
    "bald": "BALD",
    "epig": "EPIG",
    "batchbald": "BatchBALD",
    "coreset": "CoreSet",
    "badge": "BADGE",
    "glister": "GLISTER",
    "galaxy": "GALAXY",
    "power-bald": "PowerBALD",
    "softmax-bald": "SoftmaxBALD",
    "softrank-bald": "SoftRankBALD",
    "power-epig": "PowerEPIG",
    "softmax-epig": "SoftmaxEPIG",
    "softrank-epig": "SoftRankEPIG",
    "parbals-map-epig": "ParBaLS-MAP EPIG",
    "parbals-epig": "ParBaLS EPIG",
}
_DATASETS = {
    "ag-news": "AG News",
    "airline": "Airline",
    "breast-cancer": "Breast Cancer",
    "cifar10": "CIFAR-10",
    "civil-comments": "Civil Comments",
    "credit-card": "Credit Card",
    "digits": "Digits",
    "fashion-mnist": "Fashion-MNIST",
    "fmow": "fMoW",
    "iwildcam": "iWildCam",
    "sms-spam": "SMS Spam",
    "yelp": "Yelp",
}


@dataclass(frozen=True)
class Style:
    """Colour, dashes, marker and width of a line."""

    colour: str
    dashes: str
    marker: str
    width: float = 1.6


# Okabe and Ito's colours, which the colour-blind can tell apart; lines of one colour differ in
# dashes and marker.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PINK, _GREY = (
    "#000000",
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
    "#767676",
)
_STYLES = {
    "random": Style(_BLACK, ":", "o"),
    "confidence": Style(_ORANGE, "-", "s"),
    "margin": Style(_ORANGE, "--", "h"),
    "entropy": Style(_ORANGE, ":", "p"),
    "coreset": Style(_PINK, "--", "<"),
    "badge": Style(_GREEN, "-.", "P"),
    "glister": Style(_GREY, "--", "X"),
    "galaxy": Style(_RED, "-.", "*"),
    "bald": Style(_RED, "-", "^"),
    "power-bald": Style(_RED, "--", "<"),
    "softmax-bald": Style(_PINK, "-.", ">"),
    "softrank-bald": Style(_PINK, ":", "X"),
    "batchbald": Style(_ORANGE, "-", "h"),
    "epig": Style(_GREEN, "-", "v"),
    "power-epig": Style(_GREEN, "--", "d"),
    "softmax-epig": Style(_GREY, "-.", "P"),
    "softrank-epig": Style(_GREY, "--", "p"),
    "parbals-map-epig": Style(_SKY, "--", "D", 2.0),
    "parbals-epig": Style(_BLUE, "-", "o", 2.6),
}
_SPARE = tuple(
    Style(c, d, m)
    for c, d, m in ((_SKY, "-", "8"), (_PINK, "-", "H"), (_BLUE, "-.", "4"), (_RED, ":", "1"))
)


def strategy_name(strategy: str, variant: str = "") -> str:
    """ "parbals-epig" → "ParBaLS EPIG"; a variant follows in brackets."""
    name = _NAMES.get(strategy, strategy[:1].upper() + strategy[1:])
    return f"{name} ({variant})" if variant else name


def dataset_name(dataset: str, positive: str | None = None) -> str:
    """ "digits" → "Digits", with a class "Digits: 3", with all of them "Digits, all classes"."""
    name = _DATASETS.get(dataset, dataset)
    if positive == ALL_CLASSES:
        return f"{name}, all classes"
    return f"{name}: {positive}" if positive else name


def device_name(device: str | None) -> str:
    """What records call "gpu: NVIDIA H200" → "NVIDIA H200 (GPU)"; "cpu: cpu" → "CPU"."""
    if not device:
        return "an unknown device"
    kind, _, name = device.partition(": ")
    if name.lower() in ("", kind.lower()):
        return kind.upper()
    return name if kind.lower() in name.lower() else f"{name} ({kind.upper()})"


def style_of(strategy: str, place: int = 0) -> Style:
    """The strategy's own style; those of other packages share spare ones by their place in the
    picture."""
    return _STYLES.get(strategy, _SPARE[place % len(_SPARE)])


def styles_of(strategies: Sequence[str]) -> list[Style]:
    """A style for each line of a picture; a strategy's second line (another variant) takes a spare
    one."""
    styles: list[Style] = []
    n_spare = 0
    for place, strategy in enumerate(strategies):
        own = _STYLES.get(strategy) if strategy not in strategies[:place] else None
        styles.append(own or _SPARE[n_spare % len(_SPARE)])
        n_spare += own is None
    return styles
