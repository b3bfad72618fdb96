"""Shape types: ``Float[Array, "N K"]`` is a NumPy or JAX array of floats with these axes.

jaxtyping checks them while the tests run, which load it first. Otherwise they have no effect.
Axis letters: N pool points, M target points, K posterior samples, C classes, D features, B batch, U
universes, A latents of a Gaussian (one for two classes, otherwise C).
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy import ndarray as Array
else:
    Array = Any  # anything with a shape and a dtype
    if "jaxtyping" in sys.modules:
        from jaxtyping import Bool, Float, Int
    else:

        class _Unchecked:
            def __class_getitem__(cls, item: Any) -> Any:
                return Any

        Bool = Float = Int = _Unchecked

__all__ = ["Array", "Bool", "Float", "Int"]
