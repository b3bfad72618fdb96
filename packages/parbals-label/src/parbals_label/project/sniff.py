"""Look at a user's data before a project is created: columns, their contents, the label.

:func:`sniff` opens the file and looks at its first rows. Nothing is decided about features yet, and
nothing is written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from parbals.errors import InputError
from parbals.features.table import is_identifier, is_text

from parbals_label.encoders.base import Kind
from parbals_label.project.embedding import columns_of
from parbals_label.readers.cells import NO_LABEL, label_key
from parbals_label.readers.items import id_column_of
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, check_column
from parbals_label.store.settings import check_classes

__all__ = ["ColumnGroups", "Roles", "Sniffed", "group_columns", "label_like_columns", "sniff"]

_LABEL_COLUMN_NAME = re.compile(
    r"((true|gold|final|actual|correct)[ _-]?)?"
    r"(labels?|targets?|class|classes|y|y_true|gold|(ground[ _-]?)?truth|answers?|votes|predicted)"
    r"([ _-]?(id|idx|name|text|str))?"
)
"""Names that data sets commonly give to their label column."""
_COMMON_VALUES = frozenset({"0", "1", "yes", "no", "true", "false", "y", "n", "t", "f"})
"""Names of classes that unrelated columns of a table may contain as well."""


@dataclass(frozen=True)
class Roles:
    """The user's assignment of columns; what is empty is guessed from the data.

    Attributes:
        text: columns with texts to encode.
        image: the column with paths of images.
        features: columns of a table; ("all",) means every column without another role.
        label: the column with labels that exist already.
        id: the column that names the items; "" numbers the rows instead.
        show: columns to show to annotators even if they may reveal the label.
        hide: columns not to show to annotators.

    >>> Roles(text=("message",), label="spam").features
    ()
    """

    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()

    @property
    def encoded(self) -> list[str]:
        """The columns that are named as texts or images."""
        return [*self.text, self.image] if self.image else list(self.text)


class ColumnGroups(NamedTuple):
    """Columns by their first cells: values for a table, free texts, and identifiers of rows."""

    table: list[str]
    texts: list[str]
    identifiers: list[str]


@dataclass(frozen=True)
class Sniffed:
    """The user's data and wishes after one look at the first rows.

    Attributes:
        data: the file or folder.
        source: the same, opened.
        roles: as the user gave them.
        id_column: the column that names the items, or ``NUMBERED``.
        classes: as the user named them; empty where the label column has to tell.
        kind: what the encoded columns hold, None if only the encoder tells.
        unassigned: columns that have no role and do not look like the label.
    """

    data: Path
    source: Source
    roles: Roles
    id_column: str
    classes: list[str]
    kind: Kind | None
    unassigned: list[str]

    @cached_property
    def groups(self) -> ColumnGroups:
        """The unassigned columns, grouped by their contents."""
        return group_columns(self.source, self.unassigned)


def sniff(
    data: Path, roles: Roles, classes: list[str] | None, reading: Mapping[str, Any]
) -> Sniffed:
    """Open the data, check the names of columns and classes, and list the unassigned columns."""
    source = open_source(data, **reading)
    named_classes = [] if classes is None else check_classes(classes)
    for column in (*roles.encoded, *roles.show, *roles.hide):
        check_column(source, column)
    id_column = id_column_of(source, roles.label)
    if roles.id is None and id_column in roles.features:
        raise InputError(
            f"The column {id_column!r} names the items, so that it cannot be a feature as well; "
            'leave it out of --features, or number the items: --id "".'
        )
    assigned = {*roles.encoded, roles.label, roles.id or id_column}
    unassigned = [name for name in source.columns if name not in assigned]
    label_like = label_like_columns(source, unassigned, named_classes)
    return Sniffed(
        data=data,
        source=source,
        roles=roles,
        # Ids in the file are never ignored silently: labels told by id would go to wrong items.
        id_column=id_column if roles.id is None else roles.id,
        classes=named_classes,
        kind=_encoded_kind(source, roles),
        unassigned=[name for name in unassigned if name not in label_like],
    )


def _encoded_kind(source: Source, roles: Roles) -> Kind | None:
    """What the encoded columns hold, where that is known already."""
    if roles.text:
        return "text"
    if roles.image or (source.kind == "images" and not roles.features):
        return "image"
    return None


def label_like_columns(
    source: Source, columns: Sequence[str], classes: Sequence[str]
) -> dict[str, str]:
    """Column → reason, of columns that are or may be the label.

    As features, or shown beside an item, they would give the label away.
    """
    class_keys = {label_key(name) for name in classes}
    containing = [name for name in columns if _contains_classes(source, name, class_keys)]
    if len(containing) > 1 and class_keys <= _COMMON_VALUES:
        containing = []
    reasons = {}
    for name in columns:
        if _LABEL_COLUMN_NAME.fullmatch(label_key(name)):
            reasons[name] = "named like an answer"
    return reasons | dict.fromkeys(containing, "holding the classes")


def _contains_classes(source: Source, column: str, class_keys: set[str]) -> bool:
    """Whether the first cells of a column are classes, or lists of classes, and nothing else."""
    cells = (row.values[column] for row in source.head)
    entries = {label_key(str(cell)) for cell in cells if isinstance(cell, str | int | float)}
    entries -= NO_LABEL | {"", "[]"}
    if not entries:
        return False
    lists = ({name.strip(" '\"[]") for name in re.split("[|;,]", cell)} for cell in entries)
    return entries <= class_keys or all(names <= class_keys for names in lists)


def group_columns(source: Source, columns: Sequence[str]) -> ColumnGroups:
    """Group columns by their first cells."""
    cells = columns_of((row.values for row in source.head), columns)
    texts = [name for name in columns if is_text(cells[name])]
    others = [name for name in columns if name not in texts]
    identifiers = [name for name in others if is_identifier(name, cells[name])]
    return ColumnGroups(
        table=[name for name in others if name not in identifiers],
        texts=texts,
        identifiers=identifiers,
    )
