"""Pause and resume programs and LLMs: a paused one labels nothing, and its answers stay."""

from parbals_label.project.checks import program_name
from parbals_label.store.store import Store

__all__ = ["set_paused"]


def set_paused(store: Store, program: str | None, *, is_paused: bool) -> str:
    """Pause or resume a program that has answered; a sentence that says so.

    A run that is at work notices it within a second and ends; the next one is refused.

    Args:
        store: of the project.
        program: its name, with or without ``machine:``; None if the project has only one.
        is_paused: False resumes it.
    """
    with store.transaction():
        name = program_name(store, program)
        paused = set(store.settings.paused) - {name}
        if is_paused:
            paused.add(name)
        store.update_settings(paused=tuple(sorted(paused)))
    if is_paused:
        return f"{name} is paused: it sends no further request, and its answers stay."
    return f"{name} may label again; start it with parbals label."
