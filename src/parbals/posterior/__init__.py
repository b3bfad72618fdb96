"""Labelled data in, posterior draws out."""

from parbals.numerics import keep_compiled

keep_compiled()  # here and in scores: one of them is loaded before anything is compiled
