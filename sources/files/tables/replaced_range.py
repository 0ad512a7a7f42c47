"""Range of event times that one commit of a Delta table replaces, as the commit itself says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from sources.common.state_document import Part
from sources.common.times import iso, to_ms

_NAME = "hybridReplacedRange"
"""Field of Delta's ``commitInfo`` with the range."""


class ReplacedRange(Part):
    """Range of event times whose rows a commit has replaced; it leaves all other rows as they are.

    Attributes:
        column: Column of the table with the event times.
        field: Field of ``column`` with them, if that is a struct; else None.
        since, until: The range: from ``since`` (inclusive) until ``until`` (exclusive).
    """

    column: str
    field: str | None = None
    since: datetime
    until: datetime

    def __str__(self) -> str:
        return f"`{self.column}` from {iso(to_ms(self.since))} until {iso(to_ms(self.until))}"

    def as_metadata(self) -> dict[str, str]:
        """Return the range as metadata of the commit that replaces it: one field, with JSON.

        :func:`replaced_range` reads it.
        """
        return {_NAME: self.model_dump_json()}


def replaced_range(info: Mapping[str, Any]) -> ReplacedRange | None:
    """Return the range that a commit has replaced; None for any other commit.

    Args:
        info: The commit's ``commitInfo``.
    """
    try:
        return ReplacedRange.model_validate_json(info.get(_NAME) or "")
    except ValidationError:
        return None
