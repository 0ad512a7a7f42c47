"""Position of a sink: the version of the table that it has, as it records it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from sources.common.schema import names_and_types
from sources.common.state_document import Record
from sources.serving import OWNER
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import commit_digest, commit_name


class Position(Record):
    """Version of the target that a sink has, as the sink records it.

    Attributes:
        table: Id of the Delta table, which a table that is created again does not share.
        number: Version of the table.
        commit: SHA-256 of the commit that made the version; empty if the log no longer has it.
        owner: Generation that the table belonged to.
        form: SHA-256 of the columns with their types, and of the key.
    """

    table: str
    number: int
    commit: str
    owner: str
    form: str


@dataclass(frozen=True)
class Held:
    """Record of a sink about its own position.

    Attributes:
        delivered: The version that the sink has; None if a load is needed: nothing was delivered,
            or a load has not been completed.
        pending: The version of a delivery that was begun after ``delivered``, and not completed;
            None if there is none. Some of its rows may be in the sink.
    """

    delivered: Position | None = None
    pending: Position | None = None


def position_of(
    folder: Folder, table: DeltaTable, columns: pa.Schema, key: Sequence[str]
) -> Position:
    """Return the position that a sink records once a version of the table is delivered.

    A sink whose recorded position has another digest of columns and key is loaded again.

    Args:
        folder: Folder of the table.
        table: The table, opened at the version.
        columns: Columns that are delivered.
        key: Columns that identify a row.

    Raises:
        UnavailableError: The store of the table does not answer.
    """
    number = int(table.version())
    metadata = table.metadata()
    form = repr((names_and_types(columns), list(key)))
    return Position(
        table=str(metadata.id),
        number=number,
        commit=commit_of(folder, number),
        owner=metadata.configuration.get(OWNER, ""),
        form=hashlib.sha256(form.encode()).hexdigest(),
    )


def commit_of(folder: Folder, number: int) -> str:
    """Return the SHA-256, in hexadecimal, of a version's commit; empty if the log no longer has it.

    Args:
        folder: Folder of the Delta table.
        number: The version.

    Raises:
        StateError: The commit can't be read.
        UnavailableError: The store of the table does not answer.
    """
    return commit_digest(folder.read_bytes(commit_name(number)))
