"""What `pip install parbals` gives where JAX, BlackJAX and jaxtyping are not installed."""

import os
import subprocess
import sys

from parbals.strategies.table import STRATEGIES

ABSENT = """
import sys

class Without:
    '''A finder that does not find what the extra "jax" brings.'''

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "jax_plugins", "blackjax", "jaxtyping"):
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
import warnings
warnings.simplefilter("error")
import numpy as np
import parbals
"""

SCORES = """
probs = np.random.default_rng(0).dirichlet(np.ones(3), (700, 40))
for score in (parbals.bald, parbals.margin, parbals.least_confidence, parbals.predictive_entropy):
    assert score(probs).shape == (700,), score
for loss in ("log", "error"):
    assert parbals.epig(probs, probs[:600], loss=loss).shape == (700,)
"""

STRATEGY = """
from parbals.testing import make_inputs
for name in {names}:
    for n_classes in (2, 3):
        inputs = make_inputs(n_classes=n_classes)
        batch = parbals.select_batch(
            **inputs,
            predict=lambda rows: np.eye(n_classes)[(rows[:, 0] > 0).astype(int)],
            batch_size=4,
            strategy=name,
            pending=[1, 5],
            random_state=0,
        )
        assert len(set(batch.indices.tolist()) - {{1, 5}}) == 4, name
"""

LEARNER = """
from sklearn.ensemble import RandomForestClassifier
generator = np.random.default_rng(0)
X = generator.standard_normal((80, 3))
y = np.where(X[:, 0] > 0, "yes", "no")
model = parbals.EnsembleModel(RandomForestClassifier(20, random_state=0), 2)
learner = parbals.ActiveLearner(X, classes=["no", "yes"], model=model, random_state=0)
for _ in range(3):
    batch = learner.ask(6)
    learner.tell(batch, y[batch])
assert learner.predict_proba(X).shape == (80, 2)
assert learner.report().n_labelled == 18
"""

PARTICLES = """
X = np.random.default_rng(0).standard_normal((40, 3))
model = parbals.BayesianLogisticRegression(64, inference="smc", random_state=0)
model.fit(X[:20], np.arange(20) % 2)
batch = parbals.select_batch_from_model(model, X[20:], X[20:], 3, n_universes=2, random_state=0)
assert len(set(batch.indices.tolist())) == 3
"""


def test_it_works_or_says_what_to_install():
    """All of it in one process: most of the time goes to starting one."""
    environment = {name: value for name, value in os.environ.items() if "JAX" not in name}
    strategies = STRATEGY.format(names=list(STRATEGIES))
    unseen = 'assert not any(name.startswith("jax") for name in sys.modules)'
    code = "\n".join([ABSENT, SCORES, strategies, LEARNER, PARTICLES, unseen])
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
