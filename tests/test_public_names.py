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


def test_importing_parbals_does_not_import_jax():
    code = "import sys, parbals; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_are_attribute_errors():
    assert not hasattr(parbals, "no_such_name")
