"""PyMC's short chains, as the paper samples.

One run as in ``parbals_bench.run.single``: the same data, initial sets, candidates and strategies,
but every posterior is PyMC's default NUTS on the model as the paper states it, four chains of 100
tuning steps and 100 draws: ``studies paper.differences --only sampler``.
"""

from dataclasses import replace

import numpy as np
from lib.rivals import fit
from lib.workload import FULL
from parbals import select_batch
from parbals_bench.run.single import draw_candidates, draw_initial, draw_targets

_SIZES = replace(FULL, cores=1)  # JAX has threads, so no process may be forked from this one


def probabilities(weights, X):
    """(N, K, 2) under the draws (K, D+1), the bias last."""
    logits = X @ weights[:, :-1].T.astype(np.float32) + weights[:, -1].astype(np.float32)
    positive = 1.0 / (1.0 + np.exp(-logits))
    return np.stack([1.0 - positive, positive], axis=-1)


def one_run(data, budget, strategy, seed):
    """Test accuracy after every round."""
    training = draw_initial(seed, len(data.y_pool), budget.initial)
    accuracies = []
    for round_number in range(budget.rounds + 1):
        X = data.X_pool[training].astype(np.float64)
        draws = fit("pymc", X, data.y_pool[training], 1000 * seed + round_number, _SIZES)
        mean = np.mean(probabilities(draws.weights, data.X_test), axis=1)
        accuracies.append(float(np.mean(mean.argmax(axis=1) == data.y_test)))
        if round_number == budget.rounds:
            return accuracies
        candidates = draw_candidates(seed, round_number, len(data.y_pool), training, 10_000)
        targets = draw_targets(seed, round_number, len(data.X_target_source), 1_000)
        batch = select_batch(
            probabilities(draws.weights, data.X_pool[candidates]),
            probabilities(draws.weights, data.X_target_source[targets]),
            budget.batch,
            strategy,
            random_state=seed,
            pool_features=data.X_pool[candidates],
        )
        training = np.concatenate([training, candidates[batch.indices]])
