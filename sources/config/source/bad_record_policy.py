"""Bad records (unreadable, out of bounds, against a rule): which are left out, or quarantined.

A record is a record of a topic, or a row of a file. It is bad if it can't be read
(``on_bad_record``), if its event time is outside of its bounds (``event_time.outside``), or if it
breaks a rule (``rules``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from sources.common.fields import Declared
from sources.common.state_document import Record
from sources.config.source.event_time import EventTime
from sources.config.table.row_rules import RULE_KIND, RowRules
from sources.state.generation import Generation
from sources.storage.folder import Folder
from sources.storage.stores import Stores

BadKind = str
"""Why a record is bad: ``unreadable``, ``outside`` if its event time is outside of its bounds, or
``rule.<name>`` if it breaks that rule."""


class BadRecords(Declared):
    """Fields of a source's declaration about bad records.

    Attributes:
        on_bad_record: What happens to a record that can't be read: ``fail`` ends the run and
            reports the record's place; ``drop`` skips and counts it; ``quarantine`` writes its
            place, its bytes and the reason to a Delta table.
        quarantine: Folder of that table, relative to the pipeline's file; by default a folder of
            the generation in the state folder. Records whose event time does not count are written
            there, too: all of them under ``event_time.outside: quarantine``, under ``drop`` without
            their bytes; and those that break a rule under ``on_violation: quarantine``.

    """

    on_bad_record: Literal["fail", "drop", "quarantine"] = "fail"
    quarantine: str | None = None

    def check_quarantine(self, name: str, event_time: EventTime, rules: RowRules) -> None:
        """Refuse a quarantine table that nothing is written to.

        Args:
            name: Name of the source.
            event_time: The pipeline's declaration of the event time.
            rules: Its rules.

        Raises:
            ValueError: ``quarantine`` is declared, and nothing is written to it (:meth:`recorded`).
                Under ``event_time.outside: drop`` something is.
        """
        if self.quarantine is None or self.recorded(event_time, rules):
            return
        message = (
            f"source `{name}`: `quarantine: {self.quarantine}` names a table that nothing is "
            f"written to with `on_bad_record: {self.on_bad_record}` and `event_time.outside: "
            f"{event_time.outside}`, and no rule declares `on_violation: quarantine`. Declare "
            "`on_bad_record: quarantine`, or remove `quarantine`."
        )
        raise ValueError(message)

    def left_out(self, event_time: EventTime, rules: RowRules) -> frozenset[BadKind]:
        """Return which kinds of bad records are left out of the table and counted.

        Those with the policy ``drop`` or ``quarantine``: ``unreadable``, ``outside``,
        ``rule.<name>``. Empty if each ends the run, or is kept.

        Args:
            event_time: The pipeline's declaration of the event time.
            rules: The pipeline's rules.
        """
        policies: dict[BadKind, str] = {
            "unreadable": self.on_bad_record,
            "outside": event_time.outside,
            **{f"{RULE_KIND}{name}": policy for name, policy in rules.left_out.items()},
        }
        return frozenset(k for k, policy in policies.items() if policy in ("drop", "quarantine"))

    def recorded(self, event_time: EventTime, rules: RowRules) -> frozenset[BadKind]:
        """Return which kinds of bad records are written to the quarantine table.

        Those with the policy ``quarantine``, and records with an event time out of bounds under
        ``drop``, too: bounds move with the clock, so only the table shows later which ones were
        left out. Empty if no policy writes to the table.

        Args:
            event_time: The pipeline's declaration of the event time.
            rules: The pipeline's rules.
        """
        dropped = {"unreadable"} if self.on_bad_record == "drop" else set()
        dropped |= {f"{RULE_KIND}{name}" for name, how in rules.left_out.items() if how == "drop"}
        return self.left_out(event_time, rules) - dropped

    def quarantine_located(self, locate: Callable[[str], str]) -> dict[str, str]:
        """Return ``{"quarantine": absolute path}``, to update the model; {} if none is declared.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        return {} if self.quarantine is None else {"quarantine": locate(self.quarantine)}


class BadRecordCount(Record):
    """Number of bad records of a source that were dropped or quarantined; a state document.

    All numbers are totals of the micro-batches up to ``last_batch``.

    Attributes:
        source: Name of the source.
        total: Number of records that can't be read.
        outside: Number of records whose event time is outside of its bounds.
        broken: Number of records that break a rule, by name of the first rule that each breaks.
        last_batch: Id of the last micro-batch that is counted; -1 if none is.
    """

    VERSION = 3

    source: str
    total: int = 0
    outside: int = 0
    broken: dict[str, int] = Field(default_factory=dict)
    last_batch: int = -1


def bad_count_name(source: str) -> str:
    """Return the path of a source's :class:`BadRecordCount`, relative to the generation's folder.

    Args:
        source: Name of the source.
    """
    return f"bad/{source}.json"


def quarantine_folder(
    source: str, declared: str | None, generation: Generation, stores: Stores
) -> Folder:
    """Return the folder of the Delta table that a source's bad records are written to.

    It need not exist.

    Args:
        source: Name of the source.
        declared: Declared folder, absolute; None if none is declared.
        generation: Generation (one computation of the whole target) whose state folder contains
            the table if no folder is declared.
        stores: Stores that the declared folder may be in.

    Raises:
        InputError: The scheme of the declared folder is not supported.
    """
    if declared is None:
        return generation.folder(f"quarantine/{source}")
    return stores.folder(declared)
