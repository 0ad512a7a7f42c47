"""Record of a generation's target: epoch, verified version, accepted changes, missing documents.

The target knows its owner, the epoch and the last micro-batch that it holds. Both sides are
compared at every launch (:mod:`spark_jobs.table.ownership.belonging`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.state.adopted_table import Adopted
from sources.state.generation import PLAN, Generation
from spark_jobs.run_state.truncate_position import Truncated

_REQUESTED = "run/requested.json"
_ALWAYS = ("generation.json", PLAN, "columns.json", "history-files.parquet", _REQUESTED)
_GROUPS = ("positions", "ranges", "rounds", "ledger", "transforms")
_DELETES = "deletes/_delta_log/"  # of `spark_jobs.table.kept_deletes`


class AcceptedChange(Part):
    """Change of the target by others than the pipeline that a person has accepted.

    Attributes:
        by: Who accepted it.
        at_ms: When, in Unix milliseconds.
        version: Version of the target that the change made.
        operation: Delta's name of the change, such as ``DELETE``.
    """

    by: str
    at_ms: int
    version: int
    operation: str


class TargetRecord(Record):
    """State document of a generation about its target, compared with it at every launch.

    Attributes:
        epoch: Number of query starts on this target; it only grows. The target has the same number.
        is_announced: Whether the target may still have the previous epoch: a start was recorded
            here, and perhaps not in the target.
        table_id: Delta's id of the table; None before it was created.
        verified: Newest version of the table up to which every commit was checked: it is the
            pipeline's own, changes no row, or was accepted; None before the table was created.
        writer: Delta's application id (``txn.appId``) of the micro-batches; None before the first
            one.
        written: Last micro-batch that the table held at that version; None if it held none.
        documents: Paths of the documents that the generation had then, relative to its folder.
        accepted: Changes by others that people have accepted, the oldest first.
    """

    NAME: ClassVar = "target.json"

    epoch: int = 0
    is_announced: bool = False
    table_id: str | None = None
    verified: int | None = None
    writer: str | None = None
    written: int | None = None
    documents: list[str] = Field(default_factory=list)
    accepted: list[AcceptedChange] = Field(default_factory=list)


def read_target_record(generation: Generation) -> TargetRecord | None:
    """Read the record of a generation's target; None before its first query start.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(TargetRecord.NAME, TargetRecord)


def replace_target_record(
    generation: Generation, before: TargetRecord, after: TargetRecord
) -> bool:
    """Replace the record of a generation's target if it is still the one that was read.

    Of two drivers that each take themselves for the present one, so only one writes it.

    Args:
        generation: State folder of the generation.
        before: The record as it was read, or as this process wrote it last; an empty one for none.
        after: The new one.

    Returns:
        Whether it was written; False if another process has written one since.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    found = read_target_record(generation)
    if (found or TargetRecord()) != before:
        return False
    return generation.replace_known(TargetRecord.NAME, found, after)


def documents_of(generation: Generation) -> list[str]:
    """Return the paths of a generation's documents that are never deleted, relative to its folder.

    These are decisions, and the newest commit of kept deletes; no logs, no heartbeats.

    Raises:
        StateError: A folder of the state can't be listed.
        UnavailableError: The state's store does not answer.
    """
    single = [name for name in (*_ALWAYS, Adopted.NAME, Truncated.NAME) if generation.exists(name)]
    return sorted([*single, *_grouped(generation)])


def _grouped(generation: Generation) -> list[str]:
    names = (name for group in _GROUPS for name in generation.names(f"{group}/*.json"))
    kept = generation.names(f"{_DELETES}*.json")[-1:]
    return [*(name for name in names if name.count("/") == 1 and "/." not in name), *kept]


def missing_documents(generation: Generation, record: TargetRecord) -> list[str]:
    """Return the paths of documents that a record lists and that no longer exist.

    Empty if all exist. Some may have been lost when a state folder was copied or restored.

    Raises:
        StateError: A folder of the state can't be listed.
        UnavailableError: The state's store does not answer.
    """
    grouped = set(_grouped(generation))
    # Delta removes older commits of a table from its log.
    newest = max((name for name in grouped if name.startswith(_DELETES)), default="")
    return [
        name
        for name in record.documents
        if not (name in grouped or _DELETES < name < newest or generation.exists(name))
    ]


def was_requested(generation: Generation) -> bool:
    """Return whether a live run had been requested when the target's record was last written.

    False without a record.

    Raises:
        StateError: The record is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    record = read_target_record(generation)
    return record is not None and _REQUESTED in record.documents
