"""The project over there: found, made ready once, and its labelling interface as it is now."""

from collections.abc import Callable
from typing import Any

from parbals.errors import InputError

from parbals_label.label_studio.client import Client
from parbals_label.label_studio.interface import Interface, is_empty, read_interface
from parbals_label.label_studio.server import GoneError
from parbals_label.label_studio.tasks import first_interface, project_uid
from parbals_label.store.store import Store

__all__ = ["Project"]


class Project:
    """Project ``number`` of a server, for the items and classes of a store.

    Making it gives a project that has none a labelling interface, and asks for as many annotations
    a task as are wanted here. ``uid`` tells it from all others.
    """

    def __init__(
        self, store: Store, client: Client, number: int, say: Callable[[str], None]
    ) -> None:
        self._store, self._client, self._number, self._say = store, client, number, say
        self._seen: tuple[object, ...] = ()
        project = self._read()
        self.uid = project_uid(project)
        if is_empty(str(project.get("label_config") or "")):
            client.change_project(number, label_config=first_interface(store))
            say("The project had no labelling interface; it shows the items and the classes now.")
        wanted = store.settings.answers_wanted
        if wanted > int(project.get("maximum_annotations") or 1):
            client.change_project(number, maximum_annotations=wanted)
            say(
                f"The project asks for {wanted} annotations a task now, as many as are wanted here."
            )
        if project.get("sampling") not in (None, "Sequential sampling"):
            say(
                f"Its tasks are given out by {str(project['sampling']).lower()}; set Sequential "
                "sampling in the project's settings to give out the most useful first."
            )

    def interface(self) -> tuple[Interface, bool]:
        """The labelling interface, and whether it or the classes changed since the last call."""
        config = str(self._read().get("label_config") or "")
        classes = self._store.classes
        interface = read_interface(config, classes, self._store.former_classes)
        if self._seen == (config, classes):
            return interface, False
        self._seen = (config, classes)
        lacking = [name for name in classes if name not in interface.choices]
        if lacking:
            names = ", ".join(map(repr, lacking))
            self._say(f"Nobody can choose {names}: the labelling interface lacks it; add it.")
        if interface.others:
            names = ", ".join(map(repr, interface.others))
            self._say(
                f"The labelling interface offers {names}, which the project does not have; add "
                f"it with `parbals edit {self._store.folder} --add-class`, or its labels are "
                "left aside."
            )
        return interface, True

    def _read(self) -> dict[str, Any]:
        try:
            return self._client.project(self._number)
        except GoneError:
            raise InputError(
                f"{self._client.url} has no project {self._number} that this key may see; its "
                "number is in the address of its page."
            ) from None
