"""What a look for tables found: new, known, gone and refused ones, and columns left out."""

from __future__ import annotations

from typing import NamedTuple


class FoundTables(NamedTuple):
    """Result of looking for tables in the database. Tables are named ``schema.table``.

    Attributes:
        added: Tables without a file so far; after :func:`.table_pipelines.find` each has
            one.
        known: Tables that had one before, and are still in the database.
        gone: Tables that have a file, and are not in the database, or not included, any more.
        refused: Tables that can't be captured as they are, with the reason and what helps.
        left_out: Columns of added tables that are not captured, as ``schema.table.column``, and
            why.
    """

    added: list[str]
    known: list[str]
    gone: list[str]
    refused: dict[str, str]
    left_out: dict[str, str]

    def lines(self) -> list[str]:
        """Return a sentence for each table that is new, gone or refused, and each left out column.

        Empty if all tables are known.
        """
        added = [f"{table}: found; its pipeline is made." for table in self.added]
        gone = [
            f"{table}: no longer in the database, or not included. Its pipeline and its table "
            "stay as they are: stop it, and remove its file when nobody needs it."
            for table in self.gone
        ]
        refused = [f"{table}: not captured, as {why}." for table, why in self.refused.items()]
        left_out = [f"{column}: left out, as {why}." for column, why in self.left_out.items()]
        return [*added, *left_out, *gone, *refused]
