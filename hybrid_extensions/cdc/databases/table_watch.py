"""Watch on captured tables: when the database is asked for alterations, and a run is refused.

Whoever inspects a table records what it saw, as for a replication slot. An alteration that was
found stays recorded until a new generation, or until a comparison finds target and database equal:
rows of the target may differ from the database since then, even if the table is altered back.
"""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from hybrid_extensions.cdc.databases.altered_table import (
    Names,
    TableWatch,
    keep_table_watch,
    read_table_watch,
)
from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.cdc.databases.required_columns import judge_required
from sources.common.positions import EndPosition, Offsets
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError
from sources.state.generation import Generation


def inspect_table(
    loaded: LoadedPipeline,
    generation: Generation,
    *,
    older_ms: int = 0,
    committed: Offsets | None = None,
) -> TableWatch | None:
    """Inspect the captured table for alterations that no change reports; writes nothing.

    Asks the database. None if the pipeline captures no table, or its snapshot is not read yet. A
    database that does not answer is no error: the result's ``unknown`` says so. None, too, for a
    table of shards. An alteration that is recorded is returned without asking.

    Args:
        loaded: The pipeline, with the columns that the generation's runs have followed.
        generation: Its state, which has the result of earlier inspections.
        older_ms: An earlier result that is younger than this, in ms, is returned as it is.
        committed: Offsets up to which the target has the topic of changes; None if not known.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    if (found := _captured(loaded, generation)) is None:
        return None
    source, topic, end = found
    at_ms, before = now_ms(), read_table_watch(generation)
    if before is not None and (before.altered or at_ms - before.looked_ms < older_ms):
        return before
    if before is None:
        before = TableWatch(looked_ms=at_ms, definition=end.definition)
    before = before.model_copy(update={"looked_ms": at_ms})
    return _look(loaded, source, topic, before, end, committed)


def _look(
    loaded: LoadedPipeline,
    source: FileSource,
    topic: KafkaSource,
    before: TableWatch,
    end: EndPosition,
    committed: Offsets | None = None,
) -> TableWatch:
    assert topic.changes is not None  # `_captured` finds no other one
    assert end.snapshot is not None  # asked for such an end only
    names = Names(topic.value_columns, topic.changes)
    try:
        table = CapturedTable.of(loaded, source, topic)
        access = access_to(table.options.dsn)
        seen = access.look_at_table(table, topic, names, before, end.snapshot)
        return judge_required(loaded, topic, seen, committed)
    except (HybridError, DeltaError, OSError) as error:
        return before.model_copy(update={"unknown": str(error)})


def inspect_uncompared(loaded: LoadedPipeline, generation: Generation) -> TableWatch | None:
    """Inspect the captured table without comparing it with earlier inspections; writes nothing.

    Called after a comparison has found target and database equal.

    Args:
        loaded: The pipeline, with the columns that the generation's runs have followed.
        generation: Its state.

    Returns:
        What was seen, for :func:`.altered_table.withdraw_alteration`. None if no alteration or
        narrowed column is recorded that could be withdrawn, the table is altered still, or can't be
        inspected.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    kept = read_table_watch(generation)
    if kept is None or not (kept.altered or kept.narrowed):
        return None
    if (found := _captured(loaded, generation)) is None:
        return None
    source, topic, end = found
    seen = _look(loaded, source, topic, TableWatch(looked_ms=now_ms()), end)
    return None if seen.unknown is not None or seen.altered is not None else seen


def require_unaltered_table(
    loaded: LoadedPipeline, generation: Generation, committed: Offsets | None = None
) -> None:
    """Inspect a pipeline's captured table, record the result, and refuse an altered table.

    Does nothing if the pipeline captures no table.

    Args:
        loaded: The pipeline, with the columns that the generation's runs have followed.
        generation: Its state.
        committed: Offsets up to which the target has the topic of changes; None if not known.

    Raises:
        InputError: Something was done to the table that no change reports.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if (seen := inspect_table(loaded, generation, committed=committed)) is not None:
        keep_table_watch(generation, seen)
        if seen.altered is not None:
            raise seen.altered.error()


def _captured(
    loaded: LoadedPipeline, generation: Generation
) -> tuple[FileSource, KafkaSource, EndPosition] | None:
    """Return the source with the snapshot of a table, the topic of its changes, and its end.

    None if there is no such source, its snapshot is not read yet, or tables of shards are captured,
    whose catalogs are not compared.
    """
    if loaded.pipeline.shards:
        return None
    for source in loaded.pipeline.sources:
        if isinstance(source, FileSource) and source.snapshot is not None:
            topic = loaded.pipeline.topic_after(source.name)
            if topic is not None and topic.changes is not None:
                end = generation.read(f"positions/{source.name}-end.json", EndPosition)
                return None if end is None or end.snapshot is None else (source, topic, end)
    return None
