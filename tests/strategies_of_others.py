"""What a package with a strategy of its own might define."""

from parbals.strategies import Strategy
from parbals.strategies.top import select_random

GOOD = Strategy(select_random, stochastic=True)
NOT_ONE = select_random
