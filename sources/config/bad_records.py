"""What happens to records that can't be read: declared on a source, counted in the state folder.

A record is one of a topic, or a row of a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import model_validator

from sources.common.fields import Declared
from sources.common.positions import Record
from sources.common.state import Generation


class BadRecords(Declared):
    """The part of a source's declaration that is about bad records.

    Attributes:
        on_bad_record: ``fail`` the run, with the record's place; ``drop`` it and count it; or put
            it into ``quarantine``, a Delta table with its place, its bytes and what is wrong.
        quarantine: That table's folder. Relative to the pipeline's file; in the state folder, if
            left out.

    """

    on_bad_record: Literal["fail", "drop", "quarantine"] = "fail"
    quarantine: str | None = None

    @model_validator(mode="after")
    def _quarantine_is_asked_for(self) -> BadRecords:
        if self.quarantine is not None and self.on_bad_record != "quarantine":
            message = "`quarantine` names a table: write `on_bad_record: quarantine` to fill it"
            raise ValueError(message)
        return self

    def quarantine_located(self, locate: Callable[[str], str]) -> dict[str, str]:
        """The changes that make the table's path absolute."""
        return {} if self.quarantine is None else {"quarantine": locate(self.quarantine)}


class BadRecordCount(Record):
    """How many bad records of a source were dropped or put into quarantine.

    Attributes:
        source: Its name.
        total: Of all micro-batches up to ``last_batch``.
        last_batch: The last micro-batch that is in ``total``.

    """

    source: str
    total: int
    last_batch: int


def bad_count_name(source: str) -> str:
    """Where the count of a source lies in the generation's folder."""
    return f"bad/{source}.json"


def quarantine_path(source: str, declared: str | None, generation: Generation) -> str:
    """The folder of a source's quarantine table.

    Args:
        source: The source's name.
        declared: What it declares, absolute.
        generation: Has a place for it otherwise.
    """
    return declared or str(generation.path(f"quarantine/{source}"))
