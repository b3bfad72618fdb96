"""What the demo calls things, and the colours it gives them (Okabe and Ito's, safe for the
colour-blind)."""

from dataclasses import dataclass

__all__ = ["DARK", "LIGHT", "METRIC_NAMES", "NAMES", "Theme", "colour_of", "name_of"]

NAMES = {"random": "Random", "epig": "Top-B EPIG", "parbals-epig": "ParBaLS"}
METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "spam_f1": "F1 score of spam",
}


@dataclass(frozen=True)
class Theme:
    """Colours of pictures on one background."""

    page: str
    ink: str
    faint: str
    ham: str
    spam: str
    strategies: dict[str, str]


LIGHT = Theme(
    page="#ffffff",
    ink="#1d2330",
    faint="#c9ced8",
    ham="#d3d7df",
    spam="#9aa2b1",
    strategies={"random": "#6b7280", "epig": "#d55e00", "parbals-epig": "#0072b2"},
)
DARK = Theme(
    page="#161a22",
    ink="#e6e9ef",
    faint="#3a4150",
    ham="#39404e",
    spam="#6d7788",
    strategies={"random": "#a3abb8", "epig": "#f0813a", "parbals-epig": "#56b4e9"},
)


def name_of(strategy: str) -> str:
    return NAMES.get(strategy, strategy)


def colour_of(strategy: str, theme: Theme) -> str:
    return theme.strategies.get(strategy, theme.ink)
