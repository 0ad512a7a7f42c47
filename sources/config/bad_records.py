"""Policy for bad records: declared on a source, counted in the state folder.

A record is a record of a topic, or a row of a file. It is bad if it can't be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import model_validator

from sources.common.fields import Declared
from sources.common.positions import Record
from sources.common.state import Generation


class BadRecords(Declared):
    """Fields of a source's declaration about bad records.

    Attributes:
        on_bad_record: What happens to a record that can't be read: ``fail`` ends the run and
            reports the record's place; ``drop`` skips and counts it; ``quarantine`` writes its
            place, its bytes and the reason to a Delta table.
        quarantine: Folder of that table, relative to the pipeline's file; by default a folder of
            the generation in the state folder.

    """

    on_bad_record: Literal["fail", "drop", "quarantine"] = "fail"
    quarantine: str | None = None

    @model_validator(mode="after")
    def _quarantine_is_used(self) -> BadRecords:
        if self.quarantine is not None and self.on_bad_record != "quarantine":
            message = (
                f"`quarantine: {self.quarantine}` names a table that nothing is written to with "
                f"`on_bad_record: {self.on_bad_record}`. Declare `on_bad_record: quarantine`, or "
                "remove `quarantine`."
            )
            raise ValueError(message)
        return self

    def quarantine_located(self, locate: Callable[[str], str]) -> dict[str, str]:
        """Return the change of fields that makes the path of the quarantine table absolute.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.

        Returns:
            The field ``quarantine`` and its absolute path; empty if no table is declared.
        """
        return {} if self.quarantine is None else {"quarantine": locate(self.quarantine)}


class BadRecordCount(Record):
    """Number of bad records of a source that were dropped or quarantined, as kept in the state.

    Attributes:
        source: Name of the source.
        total: Number in all micro-batches up to ``last_batch``.
        last_batch: Id of the last micro-batch that is counted.

    """

    source: str
    total: int
    last_batch: int


def bad_count_name(source: str) -> str:
    """Return the path of a source's :class:`BadRecordCount`, relative to the generation's folder.

    Args:
        source: Name of the source.
    """
    return f"bad/{source}.json"


def quarantine_path(source: str, declared: str | None, generation: Generation) -> str:
    """Return the folder of the Delta table that a source's bad records are written to.

    Args:
        source: Name of the source.
        declared: Declared folder, absolute; None if none is declared.
        generation: Generation (one computation of the whole target) whose state folder contains
            the table if no folder is declared.
    """
    return declared or str(generation.path(f"quarantine/{source}"))
