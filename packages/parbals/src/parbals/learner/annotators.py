"""Annotators as channels: who says what where the truth is something else.

Annotator j says a of an item of class c with probability π_j[c, a]. Answers of item i then have the
likelihood Σ_c w_ic p(c | f_i), w_ic = Π_j π_j[c, a_ij], which expectation propagation takes as it
takes labels. What class an item is of, r_ic ∝ w_ic p_-i(c), hangs on everybody's answers and on
what the model predicts without them; the channels are counts of r, and both are found in turn.

*Few answers.* A row of a channel has a Dirichlet prior of 8 answers. Its centre is the annotator's
own share of right answers, and the classes that they wrongly name; that share begins as 9 right
ones of 10. So one number is learnt from the first answers, a matrix from hundreds.

*Programs* (names that begin with ``machine:``) err alike on like items, and a model that learnt
from a program's answers would find them right. So people teach the model first, by every item they
have answered; that model, and people's answers, say what a program's are worth; and these then
count whole, for a third or, where that foretells people's answers clearly better, each left out,
not at all. What people have answered too says most of a program: they may have been asked where it
is odd, and a model of odd items be wrong elsewhere. A program that lies is found out by people;
where nobody else answered, programs are taken as people.

The audit's items teach no channel, because the model must not know them; how often an annotator is
wrong is told with them. A label that nobody signed is true: it says how good annotators are.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from parbals.types import Estimate
from parbals.wording import PROGRAM

__all__ = ["Annotator", "Answers", "Crowd", "channel", "listen"]

_RIGHT, _KNOWN = 0.9, 10.0  # share of right answers before any was seen, and how many that counts
_ROW = 8.0  # answers that a row's centre counts
_ROUNDS, _CLOSE = 5, 0.02
_CHECKED = 20.0  # answers of a program that people have checked: enough to know its worth
_SHARES = (1.0, 0.3)  # of what programs' answers say; or nothing
_CLEARLY = 0.5  # nats, times √n, by which nothing must foretell n answers better: beyond chance
_LEAST = 1e-12

Said = Mapping[int, Mapping[str | None, int]]
"""Position → {annotator: class number}; None is nobody's name, and true."""


class Annotator(NamedTuple):
    """How often one annotator is wrong (90 % interval), and π (C, C): true class, said class."""

    name: str
    n_answers: int
    error: Estimate
    channel: np.ndarray


class Crowd(NamedTuple):
    """What all answers come to, for labelled positions (n,) ascending.

    ``likelihoods`` (n, C) are w, ``beliefs`` (n, C) are r; the audit's know nothing of the model.
    """

    annotators: tuple[Annotator, ...]
    likelihoods: np.ndarray
    beliefs: np.ndarray


class Answers(NamedTuple):
    """Every answer as who (m,), of which row (m,), and what (m,); known classes (n,) or -1."""

    names: tuple[str, ...]
    who: np.ndarray
    row: np.ndarray
    what: np.ndarray
    true: np.ndarray

    @classmethod
    def of(cls, said: Said, positions: np.ndarray) -> "Answers":
        """Of labelled positions (n,), ascending."""
        rows = list(enumerate(positions.tolist()))
        signed = [
            (name, row, said[p][name]) for row, p in rows for name in sorted(filter(None, said[p]))
        ]
        names = tuple(sorted({name for name, _, _ in signed}))
        who = [names.index(name) for name, _, _ in signed]
        row, what = (np.array([one[k] for one in signed], int) for k in (1, 2))
        true = np.array([said[p].get(None, -1) for _, p in rows], int)
        return cls(names, np.array(who, int), row, what, true)

    def likelihoods(self, channels: np.ndarray, counts: np.ndarray | float = 1.0) -> np.ndarray:
        """w (n, C) of channels (J, C, C), of which each counts so much (J,)."""
        log_w = np.zeros((len(self.true), channels.shape[1]))
        share = np.broadcast_to(counts, len(self.names))[self.who, None]
        np.add.at(log_w, self.row, share * np.log(channels[self.who, :, self.what]))
        w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        known = self.true >= 0
        w[known] = np.eye(w.shape[1])[self.true[known]]
        return w

    def counts(self, beliefs: np.ndarray, among: np.ndarray) -> np.ndarray:
        """(J, C, C) answers by true and said class, of rows ``among`` (n,)."""
        n_classes, here = beliefs.shape[1], among[self.row]
        found = np.zeros((len(self.names), n_classes, n_classes))
        said = found.transpose(0, 2, 1)
        np.add.at(said, (self.who[here], self.what[here]), beliefs[self.row[here]])
        return found


def channel(counts: np.ndarray) -> np.ndarray:
    """π (C, C) of counted answers (C, C), by true and said class; zeros before any."""
    n_classes = len(counts)
    right = (_RIGHT * _KNOWN + np.trace(counts)) / (_KNOWN + counts.sum())
    apart = 1.0 - np.eye(n_classes)
    wrong = apart * (1.0 + (apart * counts).sum(axis=0))
    centre = right * np.eye(n_classes) + (1.0 - right) * wrong / wrong.sum(axis=1, keepdims=True)
    return (_ROW * centre + counts) / (_ROW + counts.sum(axis=1, keepdims=True))


def listen(
    answers: Answers,
    n_classes: int,
    trains: np.ndarray,
    predicted: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Crowd:
    """What annotators are worth, and what their answers come to.

    Args:
        trains: (n,) rows that the model may learn from; the others are the audit's.
        predicted: (n, C) for rows (k,) to learn from and their likelihoods (k, C): what the model
            predicts for every row, for one that it learnt from without that row's answers.
    """
    heard = np.zeros((len(answers.names), len(answers.true)), bool)
    heard[answers.who, answers.row] = True
    is_program = np.array([name.startswith(PROGRAM) for name in answers.names])
    by_people = heard[~is_program].any(axis=0) | (answers.true >= 0)
    if not (trains & by_people).any():
        is_program[:], by_people = False, trains
    channels = np.stack([channel(np.zeros((n_classes, n_classes)))] * len(answers.names))
    rows = np.flatnonzero(trains & by_people)
    for _ in range(_ROUNDS):
        w = answers.likelihoods(channels, ~is_program)
        probs = predicted(rows, w[rows])
        beliefs = _normal(w * probs)
        counts = answers.counts(beliefs, trains & by_people)
        others = answers.counts(beliefs, trains & ~by_people)
        filling = _filling(counts, others)
        counts += filling[:, None, None] * others
        before, channels = channels, np.stack([channel(each) for each in counts])
        if np.abs(channels - before)[~is_program].max(initial=0.0) < _CLOSE:
            break
    weights = np.where(by_people | ~trains, 1.0, filling[:, None])  # (J, n) of answers
    errors = [_error(answers, beliefs, weights[j], j) for j in range(len(answers.names))]
    share = 1.0
    if is_program.any():
        # What a program says of an item itself is known to all: people are asked where it is odd.
        own = answers.likelihoods(channels, is_program)[rows]
        own = np.where((answers.true[rows] >= 0)[:, None], 1.0, own)
        alone, share = w[rows], 0.0
        best = _fit(alone, _normal(own * probs[rows])) - _CLEARLY * np.sqrt(len(rows))
        everything = np.flatnonzero(trains)
        for tried in _SHARES:
            more = answers.likelihoods(channels, np.where(is_program, tried, 1.0))
            found = predicted(everything, more[everything])
            fit = _fit(alone, _normal(own * found[rows]))
            if fit >= best:
                share, best, probs = tried, fit, found
    w = answers.likelihoods(channels, np.where(is_program, share, 1.0))
    made = zip(answers.names, heard.sum(axis=1).tolist(), errors, channels, strict=True)
    people = tuple(Annotator(*one) for one in made)
    beliefs = _normal(w * np.where(trains[:, None], probs, 1.0))
    return Crowd(people, w, beliefs)


def _filling(checked: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(J,) what answers count that only the model judges, of counts (J, C, C) of both kinds.

    Where it finds another share of wrong ones than people do, they only fill up to a few.
    """
    n, n_others = checked.sum(axis=(1, 2)), np.maximum(others.sum(axis=(1, 2)), _LEAST)
    right, right_others = (part.trace(axis1=1, axis2=2) for part in (checked, others))
    mean = (right + 1.0) / (n + 2.0)
    deviation = np.sqrt(mean * (1.0 - mean) / (n + 3.0))
    agree = np.abs(mean - right_others / n_others) < 2.0 * deviation
    return np.where(agree, 1.0, np.minimum(1.0, np.maximum(_CHECKED - n, 0.0) / n_others))


def _fit(likelihoods: np.ndarray, probs: np.ndarray) -> float:
    """Σ_i ln Σ_c w_ic p_ic: how well predictions foretell answers."""
    return float(np.log(np.maximum((likelihoods * probs).sum(axis=1), _LEAST)).sum())


def _normal(beliefs: np.ndarray) -> np.ndarray:
    return beliefs / np.maximum(beliefs.sum(axis=1, keepdims=True), _LEAST)


def _error(answers: Answers, beliefs: np.ndarray, weights: np.ndarray, j: int) -> Estimate:
    """The share of wrong answers, which count ``weights`` (n,): beta, wider by unknown truths."""
    mine = answers.who == j
    right, counted = beliefs[answers.row[mine], answers.what[mine]], weights[answers.row[mine]]
    n = _KNOWN + counted.sum()
    mean = 1.0 - (_RIGHT * _KNOWN + counted @ right) / n
    unsure = float(np.square(counted) @ (right * (1.0 - right))) / n**2
    variance = mean * (1.0 - mean) / (n + 1.0) + unsure
    size = max(mean * (1.0 - mean) / variance - 1.0, _LEAST)
    low, high = betaincinv(mean * size, (1.0 - mean) * size, [0.05, 0.95]).tolist()
    return Estimate(float(mean), low, high)
