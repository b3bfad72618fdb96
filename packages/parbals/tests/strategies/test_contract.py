"""Every strategy of the table keeps the contract that ``parbals.testing`` ships."""

from parbals.strategies.table import STRATEGIES
from parbals.testing import StrategyContract

for _name in STRATEGIES:
    _class = "Test" + _name.title().replace("-", "")
    globals()[_class] = type(
        _class, (StrategyContract,), {"strategy": _name, "__module__": __name__}
    )
