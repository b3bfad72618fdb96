"""parbals: choose the batch of items whose labels will improve the model most.

Names are loaded on first use, so that commands which need no model start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parbals import errors
    from parbals.learner.active import ActiveLearner
    from parbals.learner.evaluation.report import Report
    from parbals.learner.models import EnsembleModel, SampleModel
    from parbals.learner.paper import paper_learner
    from parbals.learner.settings import InputSettings, PosteriorSettings, SearchSettings
    from parbals.posterior.classifier import BayesianLogisticRegression
    from parbals.scores.epig import epig
    from parbals.scores.uncertainty import bald, least_confidence, margin, predictive_entropy
    from parbals.select import select_batch, select_batch_from_model
    from parbals.types import Batch

__version__ = "0.1.0"

_HOMES = {
    "ActiveLearner": "parbals.learner.active",
    "Batch": "parbals.types",
    "BayesianLogisticRegression": "parbals.posterior.classifier",
    "EnsembleModel": "parbals.learner.models",
    "InputSettings": "parbals.learner.settings",
    "PosteriorSettings": "parbals.learner.settings",
    "Report": "parbals.learner.evaluation.report",
    "SampleModel": "parbals.learner.models",
    "SearchSettings": "parbals.learner.settings",
    "bald": "parbals.scores.uncertainty",
    "epig": "parbals.scores.epig",
    "least_confidence": "parbals.scores.uncertainty",
    "margin": "parbals.scores.uncertainty",
    "paper_learner": "parbals.learner.paper",
    "predictive_entropy": "parbals.scores.uncertainty",
    "select_batch": "parbals.select",
    "select_batch_from_model": "parbals.select",
}

# What parbals-label brings. `open` is not in __all__: importing everything must not hide Python's.
_EXTENSIONS = ("load_model", "open")

__all__ = [
    "ActiveLearner",
    "Batch",
    "BayesianLogisticRegression",
    "EnsembleModel",
    "InputSettings",
    "PosteriorSettings",
    "Report",
    "SampleModel",
    "SearchSettings",
    "__version__",
    "bald",
    "epig",
    "errors",
    "least_confidence",
    "margin",
    "paper_learner",
    "predictive_entropy",
    "select_batch",
    "select_batch_from_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _EXTENSIONS:
        return import_module("parbals.plugins").extension(name)
    if name == "errors":
        return import_module("parbals.errors")
    raise AttributeError(f"module 'parbals' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTENSIONS])
