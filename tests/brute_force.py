"""Slow, independent versions of the formulas, straight from their definitions, in float64."""

import itertools

import numpy as np


def xlogy(x, y):
    return np.where(x > 0, x * np.log(np.where(x > 0, y, 1.0)), 0.0)


def mutual_information(p, q, w):
    """I(Y ; Y') of two points with samples (K, C), by summing over every pair of labels."""
    total = 0.0
    for a, b in itertools.product(range(p.shape[1]), range(q.shape[1])):
        joint = sum(w[k] * p[k, a] * q[k, b] for k in range(len(w)))
        if joint > 0:
            total += joint * np.log(joint / ((w @ p[:, a]) * (w @ q[:, b])))
    return total


def epig(pool, target, w=None):
    w = np.full(pool.shape[1], 1 / pool.shape[1]) if w is None else np.asarray(w) / np.sum(w)
    return np.array([np.mean([mutual_information(p, q, w) for q in target]) for p in pool])


def epig_fast(pool, target, w=None):
    """The same by einsum, for pools that are too large for loops."""
    w = np.full(pool.shape[1], 1 / pool.shape[1]) if w is None else np.asarray(w) / np.sum(w)
    joint = np.einsum("k,nka,mkb->nmab", w, pool, target)
    alone = (
        np.einsum("k,nka->na", w, pool)[:, None, :, None]
        * np.einsum("k,mkb->mb", w, target)[None, :, None, :]
    )
    return xlogy(joint, joint / np.where(alone > 0, alone, 1.0)).sum(axis=(2, 3)).mean(axis=1)


def bald(pool, w=None):
    w = np.full(pool.shape[1], 1 / pool.shape[1]) if w is None else np.asarray(w) / np.sum(w)
    mean = np.einsum("k,nkc->nc", w, pool)
    return -xlogy(mean, mean).sum(axis=1) + np.einsum("k,nk->n", w, xlogy(pool, pool).sum(axis=2))


def expected_epig(pool, target, chosen, w=None):
    """(N,) expectation, over every labelling of ``chosen``, of EPIG given those labels."""
    w = np.full(pool.shape[1], 1 / pool.shape[1]) if w is None else np.asarray(w) / np.sum(w)
    total = np.zeros(len(pool))
    for labels in itertools.product(range(pool.shape[2]), repeat=len(chosen)):
        likelihood = np.prod([pool[i, :, y] for i, y in zip(chosen, labels, strict=True)], axis=0)
        evidence = w @ likelihood
        if evidence > 0:
            total += evidence * epig_fast(pool, target, w * likelihood)
    return total


def random_probs(seed, n, k, c, sharpness=1.0, dtype=np.float64):
    """Predictive samples (n, k, c); a large sharpness gives probabilities near 0 and 1."""
    logits = sharpness * np.random.default_rng(seed).standard_normal((n, k, c))
    e = np.exp(logits - logits.max(axis=2, keepdims=True))
    return (e / e.sum(axis=2, keepdims=True)).astype(dtype)


def linear_probs(seed, n, k, c, d=4, scale=2.0):
    """Predictive samples of a random linear softmax model, which points share."""
    rng = np.random.default_rng(seed)
    logits = np.einsum(
        "nd,kdc->nkc", rng.standard_normal((n, d)), scale * rng.standard_normal((k, d, c))
    )
    e = np.exp(logits - logits.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def covariance_with(latents, X):
    """S_a xᵀ (A, d, M) for design rows X (M, d): cov(f_a(x'), f_a(x)) = x' S_a xᵀ."""
    whitened = latents.whitening.rows(X).T  # (d, M)
    inside = latents.basis.T @ whitened
    learnt = latents.roots @ (latents.roots.transpose(0, 2, 1) @ inside) - inside
    coloured = (whitened + latents.basis @ learnt).transpose(1, 0, 2)
    return latents.whitening.weights(coloured).transpose(1, 0, 2)
