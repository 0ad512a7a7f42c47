"""Position in a Delta table that is followed: the version up to which its files are known."""

from __future__ import annotations

from sources.common.state_document import Part


class TablePosition(Part):
    """Version of a Delta table up to which a source has found its files.

    Attributes:
        place: Folder of the table, absolute or a URL.
        table_id: Id of the table in its log: a table that is created again has another one.
        version: The version.
        commit: SHA-256 of the version's commit, in hexadecimal; empty if Delta has removed the
            commit from the log.
    """

    place: str
    table_id: str
    version: int
    commit: str = ""
