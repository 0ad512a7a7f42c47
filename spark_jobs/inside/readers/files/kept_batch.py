"""Micro-batch limits (`batch`) that a plan's log was written with; later changes have to wait.

Splits of JSON, CSV, Avro and the like are grouped into the log's entries, which offsets count. So
the limits of the plan stay in force until the next plan, whatever the declaration says by then.
"""

from __future__ import annotations

from sources.common.state_document import Record
from sources.config.source.file_options import FileBatch
from sources.config.source.file_source import FileSource
from sources.state.generation import Generation


class KeptBatch(Record):
    """Micro-batch limits that a source's plan log was written with, in the generation's state.

    Attributes:
        batch: The limits.
    """

    batch: FileBatch


def by_plan(source: FileSource, generation: Generation) -> FileSource:
    """Return a source's declaration with the micro-batch limits that its plan log was written with.

    As declared if none is written yet. Parquet is returned as it is: each file is an entry of the
    log, so its limits apply at once.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    if source.is_read_by_spark or (kept := generation.read(_name(source), KeptBatch)) is None:
        return source
    return source.model_copy(update={"batch": kept.batch})


def keep_batch(source: FileSource, generation: Generation) -> None:
    """Record a source's micro-batch limits before its plan log is written; keep earlier ones.

    Does nothing for Parquet, whose limits may change at any time.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    if not source.is_read_by_spark:
        generation.put_if_absent(_name(source), KeptBatch(batch=source.batch))


def waiting_change(source: FileSource, generation: Generation) -> str | None:
    """Describe a change of ``batch`` that has no effect until the next generation, in a sentence.

    None if there is none.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    if by_plan(source, generation).batch == source.batch:
        return None
    return (
        f"`batch` of source `{source.name}` was changed after its splits were grouped for "
        f"generation {generation.name}; the change takes effect in the next generation."
    )


def _name(source: FileSource) -> str:
    return f"plan-log/{source.name}-batch.json"
