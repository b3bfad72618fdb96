"""Numbers and names as people read them: one form on the page, in reports and in a shell."""

__all__ = ["PROGRAM", "counted", "percent"]

PROGRAM = "machine:"  # before the name of an annotator who is none of the people


def counted(number: int, one: str, many: str = "") -> str:
    """``1 item``, ``1,200 items``; ``many`` where more than an s at the end differs."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """A share as ``41.3 %``, or ``5 %`` where the decimal is 0; ``0 %`` and ``100 %`` are exact.

    The page writes the same (``percent`` in ``web/static/js/dom.js``).
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{round(100 * share, 1) + 0.0:.1f}".removesuffix(".0") + " %"  # no "-0"
