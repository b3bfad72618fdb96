"""parbals: choose the batch of items whose labels will improve the model most.

Names are loaded on first use, so that commands which need no model start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parbals import errors
    from parbals.learner.active import ActiveLearner
    from parbals.learner.models import EnsembleModel, SampleModel
    from parbals.learner.report import Report
    from parbals.posterior.classifier import BayesianLogisticRegression
    from parbals.scores.epig import epig
    from parbals.scores.uncertainty import bald, least_confidence, margin, predictive_entropy
    from parbals.select import select_batch, select_batch_from_model
    from parbals.types import Batch

__version__ = "0.1.0"

# What stands on projects is named here alone: even an import for type checkers would count as one.
_HOMES = {
    "ActiveLearner": "parbals.learner.active",
    "Batch": "parbals.types",
    "BayesianLogisticRegression": "parbals.posterior.classifier",
    "EnsembleModel": "parbals.learner.models",
    "Report": "parbals.learner.report",
    "SampleModel": "parbals.learner.models",
    "bald": "parbals.scores.uncertainty",
    "epig": "parbals.scores.epig",
    "least_confidence": "parbals.scores.uncertainty",
    "load_model": "parbals.project.model_files",
    "margin": "parbals.scores.uncertainty",
    "predictive_entropy": "parbals.scores.uncertainty",
    "select_batch": "parbals.select",
    "select_batch_from_model": "parbals.select",
}

__all__ = [
    "ActiveLearner",
    "Batch",
    "BayesianLogisticRegression",
    "EnsembleModel",
    "Report",
    "SampleModel",
    "__version__",
    "bald",
    "epig",
    "errors",
    "least_confidence",
    "load_model",
    "margin",
    "predictive_entropy",
    "select_batch",
    "select_batch_from_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "open":  # not in __all__: an import of everything must not hide Python's own
        return import_module("parbals.project.opened").open_project
    if name == "errors":
        return import_module("parbals.errors")
    raise AttributeError(f"module 'parbals' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
