"""Schema policies: what the run of a captured table does at each kind of change of its columns."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from sources.common.fields import Declared

_REFUSED = {
    ("renamed", "ignore"): (
        "the values of the column continue under its new name. Declare `follow`, by which the "
        "target keeps the name of the `schema`, or `stop`"
    ),
    ("widened", "ignore"): (
        "a value that does not fit the column would be lost. Declare `follow`, which widens the "
        "column of the target, or `stop`"
    ),
    ("narrowed", "follow"): (
        "the statement may have altered rows, which no change reports. Declare `stop`; or "
        "`ignore`, by which the target keeps the type and the values that it has"
    ),
}


class SchemaPolicies(Declared):
    """What a run does at each kind of change of a captured table's columns.

    Attributes:
        added: A column that the table got: ``stop``; ``follow`` adds it to the target, with the
            type and the default that the database has for it; ``ignore`` leaves it out for good.
        dropped: A column that the table no longer has: ``stop``; ``follow`` empties it in all rows
            of the target; ``ignore`` leaves rows as they are, and it is null in each one that
            changes from then on.
        renamed: A column that has another name: ``stop``; ``follow`` reads it under that, and the
            target keeps the name of the ``schema``.
        widened: A column with a wider type: ``stop``; ``follow`` widens it in the target.
        narrowed: A column whose type no longer holds all values that it had: ``stop``; ``ignore``
            leaves type and rows of the target as they are, and says so.
    """

    added: Literal["stop", "follow", "ignore"] = "stop"
    dropped: Literal["stop", "follow", "ignore"] = "stop"
    renamed: Literal["stop", "follow"] = "stop"
    widened: Literal["stop", "follow"] = "stop"
    narrowed: Literal["stop", "ignore"] = "stop"

    @model_validator(mode="before")
    @classmethod
    def _can_be_kept(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for event, policy in given.items():
                if (event, policy) in _REFUSED:
                    message = f"`{event}: {policy}` can't be kept: {_REFUSED[event, policy]}."
                    raise ValueError(message)
        return given

    @property
    def changes_target(self) -> bool:
        """Whether columns of the target are added, widened or emptied."""
        return "follow" in (self.added, self.dropped, self.widened)

    @property
    def asks_database(self) -> bool:
        """Whether the database is asked what became of a column.

        If ``added`` or ``widened`` is ``follow``, or ``dropped`` or ``renamed`` is not ``stop``.
        """
        is_gone_judged = {self.dropped, self.renamed} != {"stop"}
        return self.added == "follow" or self.widened == "follow" or is_gone_judged


ALL_STOP = SchemaPolicies()
"""Policies by default: each change of a column stops the run."""
FOLLOWED = SchemaPolicies(added="follow", widened="follow")
"""What ``on_schema_change: follow`` stands for."""
