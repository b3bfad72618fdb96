"""The public interface is a contract: these names exist and load on first use."""

import subprocess
import sys

import parbals


def test_every_public_name_can_be_loaded():
    assert {"select_batch", "BayesianLogisticRegression", "epig", "bald", "Batch"} <= set(
        dir(parbals)
    )
    for name in parbals.__all__:
        assert getattr(parbals, name) is not None


def test_importing_parbals_imports_nothing_but_the_standard_library():
    """JAX, scikit-learn, SciPy and NumPy wait until a name is used."""
    code = (
        "import sys; before = set(sys.modules); import parbals, parbals.strategies;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(process.stdout.split()) - sys.stdlib_module_names == {"parbals"}


def test_unknown_names_are_attribute_errors():
    assert not hasattr(parbals, "no_such_name")
