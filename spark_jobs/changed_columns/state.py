"""The state of the serving generation as of one version of its table, for a new generation."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from sources.changed_columns.documents import PinnedVersion
from sources.planning.context import PipelineContext
from sources.serving import read_serving, target_of
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.changed_columns.fitness import not_fit
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.delta_table import open_table, paths_of
from spark_jobs.table.history_files import (
    has_history_files,
    read_history_files,
    record_history_files,
)
from spark_jobs.table.ownership.belonging import TargetSide, require_belonging

# A driver that is alive commits a micro-batch in the checkpoint right after it did in the table.
_PATIENCE_S = 60.0
_POLL_S = 0.05
_OF_PLAN = ("splits/*", "plan-log/*", "rounds/*", "planned-by.json", "plan.json")
_OF_RUN = ("seam/*", "ledger/*", "positions/*-start.json")


def copy_plan(serving: Generation, generation: Generation) -> None:
    """Give a generation the plan of the serving one: what its rows were computed from.

    The plan itself is written last, so that a copy which broke off is made again.
    """
    _copy(serving, generation, _OF_PLAN)


def pin(serving: PipelineContext, generation: Generation) -> PinnedVersion:
    """Decide which version of the serving table a generation takes, once.

    It is one whose last micro-batch the checkpoint has committed, so that its offsets say exactly
    what the version holds. The serving run may go on meanwhile.

    Raises:
        StateError: The generation does not serve any more; checkpoint, state and table of it do
            not belong together; or its last micro-batch is not committed, and no run of it goes on
            (transient).
    """
    known = generation.read(PinnedVersion.NAME, PinnedVersion)
    if known is not None:
        return known
    if read_serving(serving.loaded).generation != serving.generation.name:
        raise not_fit(serving.generation.name, "it does not serve any more")
    require_belonging(serving.loaded, serving.generation)
    side = TargetSide.of(serving.loaded, serving.generation)
    checkpoint = serving.generation.checkpoint
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        writer, batch = side.writer(), offset_log.last_committed(checkpoint)
        table = open_table(side.table)
        if writer is None or batch is None or table.transaction_version(writer) != batch:
            time.sleep(_POLL_S)
            continue
        numbers = [number for number in (batch - 1, batch) if number >= 0]
        found = {number: checkpoint.read_bytes(f"offsets/{number}") for number in numbers}
        commit = checkpoint.read_bytes(f"commits/{batch}")
        offsets = {str(number): data.decode() for number, data in found.items() if data}
        if commit is None or len(offsets) != len(numbers):
            # Spark has tidied them away meanwhile.
            continue
        made = PinnedVersion(
            table=side.table.url,
            table_version=int(table.version()),
            batch=batch,
            query=str(uuid.uuid4()),
            offsets=offsets,
            commit=commit.decode(),
        )
        return generation.put_if_absent(PinnedVersion.NAME, made)
    why = "its last micro-batch is in the table, but not committed in its checkpoint"
    raise not_fit(serving.generation.name, why, transient=True)


def copy_run(serving: PipelineContext, generation: Generation, pinned: PinnedVersion) -> None:
    """Give a generation checkpoint and positions of the serving one, as of the pinned version.

    The end positions come last, that of the chain's first source last of all: until then nothing
    counts as read.

    Raises:
        StateError: The state can't be written.
    """
    checkpoint = generation.checkpoint
    for number, text in pinned.offsets.items():
        checkpoint.replace_bytes(f"offsets/{number}", text.encode())
    checkpoint.replace_bytes(f"commits/{pinned.batch}", pinned.commit.encode())
    _copy(serving.generation.checkpoint, checkpoint, ("sources/*",))
    query = f'{{"id":"{pinned.query}"}}'
    checkpoint.replace_bytes("metadata", query.encode())
    _copy(serving.generation, generation, _OF_RUN)
    for source in reversed(serving.pipeline.sources):
        _copy(serving.generation, generation, (f"positions/{source.name}-end.json",))


def keep_history(
    serving: PipelineContext, generation: Generation, pinned: PinnedVersion, new: dict[str, str]
) -> None:
    """Record which files of the new table hold history, by those of the serving one.

    Args:
        serving: The serving generation.
        generation: The new one.
        pinned: The version whose files were taken.
        new: New name of each file, by its path in the log of that version.
    """
    table = open_table(target_of(serving.loaded, serving.generation.name), pinned.table_version)
    if has_history_files(serving.generation):
        held = read_history_files(serving.generation, table).of(paths_of(table))
        record_history_files(generation, sorted(new[path] for path in held if path in new))


def _copy(source: Folder, target: Folder, patterns: Sequence[str]) -> None:
    """Copy documents of a folder, in the order of the patterns."""
    for pattern in patterns:
        for name in source.names(pattern):
            if (data := source.read_bytes(name)) is not None:
                target.replace_bytes(name, data)
