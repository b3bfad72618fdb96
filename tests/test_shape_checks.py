"""Shapes are checked in the first calls of a function in each test, and wrong ones are noticed."""

import numpy as np
import pytest
import shape_checks
from jaxtyping import Float, TypeCheckError, jaxtyped

N_CALLS = shape_checks.N_CHECKS // 2
SQUARE = np.zeros((3, 3))
WIDE = np.zeros((2, 3))


@jaxtyped(typechecker=shape_checks.check_first_calls)
def diagonal(matrix: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N"]:
    return matrix[0]


def make_inner():
    @jaxtyped(typechecker=shape_checks.check_first_calls)
    def inner(matrix: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N"]:
        return matrix[0]

    return inner


@pytest.fixture(autouse=True)
def checks_that_start_and_end_here():
    shape_checks.start_test()
    yield
    shape_checks.start_test()


@pytest.mark.parametrize("make", [lambda: diagonal, make_inner], ids=["module", "inside"])
def test_the_first_calls_of_a_test_are_checked(make):
    for _ in range(N_CALLS - 1):
        make()(SQUARE)
    with pytest.raises(TypeCheckError):
        make()(WIDE)
    for _ in range(2):
        make()(SQUARE)
    make()(WIDE)  # a later call of the same test
    shape_checks.start_test()
    with pytest.raises(TypeCheckError):
        make()(WIDE)


def test_a_returned_value_is_checked():
    @jaxtyped(typechecker=shape_checks.check_first_calls)
    def columns(matrix: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "D"]:
        return matrix[:, 0]

    with pytest.raises(TypeCheckError, match="return value"):
        columns(WIDE)
