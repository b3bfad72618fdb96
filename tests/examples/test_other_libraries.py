"""Our EPIG, BALD and BatchBALD are those of the libraries people use, on the same samples."""

import numpy as np
import pytest

pytest.importorskip("baal", reason="needs baal and PyTorch: make test-integrations")
pytest.importorskip("batchbald_redux", reason="needs batchbald_redux: make test-integrations")
import parbals
import torch
from baal.active.heuristics import BALD, EPIG
from batchbald_redux.batchbald import (
    compute_conditional_entropy,
    compute_entropy,
    get_batchbald_batch,
)
from parbals.testing import make_inputs

INPUTS = make_inputs(n_pool=40, n_classes=3)
POOL = INPUTS["pool_probs"]
TARGET = INPUTS["target_probs"]
POOL_NCK = POOL.swapaxes(1, 2)
TARGET_NCK = TARGET.swapaxes(1, 2)
LOG_PROBS = torch.as_tensor(np.log(POOL))


def shown(strategy, batch_size=1, **more):
    """The rows of scores by which a batch was chosen."""
    rows = []
    batch = parbals.select_batch(POOL, TARGET, batch_size, strategy, watch=rows.append, **more)
    return batch, rows


def test_epig_is_that_of_baal():
    theirs = EPIG().compute_score(POOL_NCK, TARGET_NCK)
    batch, (scores,) = shown("epig")
    np.testing.assert_allclose(scores, theirs, rtol=1e-3, atol=2e-6)  # theirs in single precision
    np.testing.assert_array_equal(batch.indices, [theirs.argmax()])
    np.testing.assert_allclose(parbals.epig(POOL, TARGET), scores, rtol=1e-6)


def test_bald_is_that_of_baal_and_batchbald_redux():
    _, (scores,) = shown("bald")
    np.testing.assert_allclose(scores, BALD().compute_score(POOL_NCK), rtol=1e-6, atol=1e-9)
    theirs = compute_entropy(LOG_PROBS) - compute_conditional_entropy(LOG_PROBS)
    np.testing.assert_allclose(scores, theirs.numpy(), rtol=1e-6, atol=1e-9)


def test_batchbald_is_that_of_batchbald_redux():
    """Theirs reports the joint information of the batch so far, ours what a point adds to it."""
    theirs = get_batchbald_batch(LOG_PROBS, 4, num_samples=100_000)
    batch, _ = shown("batchbald", 4)
    assert batch.indices.tolist() == theirs.indices
    np.testing.assert_allclose(np.cumsum(batch.scores), theirs.scores, rtol=1e-4)
