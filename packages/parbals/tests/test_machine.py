"""Where NumPy does the work, what becomes of its library's threads, and JAX's precision."""

import os
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from parbals import machine
from parbals.machine import compiled, several_threads, working_precision
from threadpoolctl import threadpool_info, threadpool_limits


def n_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


@pytest.fixture
def unlimited(monkeypatch):
    """As it is for users: nothing around the call limits the library."""
    monkeypatch.setattr(machine, "_open_blocks", [])
    with threadpool_limits(2, user_api="blas"):
        yield


def test_the_library_gets_its_threads_back_whoever_leaves_first(unlimited):
    """The limit may be a thread's own or that of the process, as the library was built."""
    before = n_threads()
    results = []
    entered = threading.Event()
    leave = threading.Event()

    def other():
        with several_threads():
            entered.set()
            leave.wait()
        results.append(n_threads())

    with several_threads() as workers:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        assert set(n_threads()) <= {1}
        inside = workers.map(lambda _: n_threads(), range(20))
    assert all(set(numbers) <= {1} for numbers in inside)
    leave.set()
    thread.join()
    assert n_threads() == before
    assert results == [before]


def test_what_ends_inside_leaves_the_limit_of_what_is_around_it(unlimited):
    before = n_threads()
    with several_threads() as around:
        with several_threads() as inside:
            assert inside.n_threads == around.n_threads == 2
        assert set(n_threads()) <= {1}
    assert n_threads() == before


def test_an_error_in_a_thread_comes_out():
    with pytest.raises(ZeroDivisionError), several_threads() as workers:
        workers.map(lambda x: 1 // x, [1, 0])
    assert np.isfinite(n_threads()).all()


PROGRAM = """
import sys
from parbals.machine import on_host
print(on_host(), "jax" in sys.modules)
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"JAX_PLATFORMS": "cpu"}, "True False"),
        (
            {
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
            },
            "False True",
        ),
    ],
)
def test_jax_is_asked_only_where_it_might_have_more_than_a_cpu(names, expected, monkeypatch):
    for name, value in {"XLA_FLAGS": "", **names}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == expected


FIRST = """
import sys
from parbals.machine import sooner_on_host
if "started" in sys.argv:
    import jax
    jax.devices()
print(sooner_on_host(int(float(sys.argv[1]))), sooner_on_host(10**9), "jax" in sys.modules)
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["1e9"], "True False False"),  # the second piece of work is worth an accelerator
        (["1e13"], "False False False"),
        (["1e9", "started"], "False False True"),
    ],
)
def test_the_first_work_is_numpys_where_an_accelerator_would_start_longer(arguments, expected):
    run = subprocess.run(
        [sys.executable, "-c", FIRST, *arguments],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == expected


def test_double_precision_is_scoped_to_the_call():
    with working_precision(np.dtype(np.float64)):
        assert jnp.zeros(1).dtype == jnp.float64
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_formula_is_compiled_once_for_each_of_its_options():
    def scaled(x, *, by, xp):
        return xp.square(x) * by

    assert compiled(scaled, by=2) is compiled(scaled, by=2)
    assert compiled(scaled, by=3)(np.arange(3.0, dtype=np.float32)).tolist() == [0.0, 3.0, 12.0]


def test_nothing_is_written_or_configured_for_the_user(tmp_path):
    code = """
import jax, numpy as np
before = dict(jax.config.values)
import parbals, parbals.scores.rows
probs = np.full((20, 8, 2), 0.5, np.float32)
parbals.select_batch(probs, probs, 2, random_state=0)
assert jax.config.values == before
"""
    environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
