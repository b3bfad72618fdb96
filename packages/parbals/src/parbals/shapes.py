"""Shape types: ``Float[Array, "N K"]`` is an array of floats with these axes, NumPy's or JAX's.

They are checked while the tests run, by jaxtyping. Where that is not installed they say nothing.
Axis letters: N pool points, M target points, K posterior samples, C classes, D features, B batch, U
universes, A latents of a Gaussian.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy import ndarray as Array
else:
    Array = Any  # whatever has a shape and a type of its entries
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item: Any) -> Any:
                return Any

        Bool = Float = Int = _Unchecked

__all__ = ["Array", "Bool", "Float", "Int"]
