"""Marks in the commit of a promotion or rollback, by which writers are kept out or let in."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress

from hybrid_extensions.generations.table_position import find_position
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.planning.context import PipelineContext
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.delta_table import NO_MORE, transactions_of
from spark_jobs.table.ownership.belonging import epoch_id

_BEFORE_FIRST = -1
"""Transaction version of a writer whose micro-batch 0 is still to be written."""


def writer_marks(
    loaded: LoadedPipeline,
    to: PipelineContext,
    past: PipelineContext,
    source: Folder,
    version: int | None,
) -> tuple[dict[str, int], str | None]:
    """Return what the commit that exchanges two generations says of their writers.

    A query id is written for the past generation's checkpoint if it has none yet.

    Args:
        loaded: The pipeline.
        to: The generation whose rows the target gets.
        past: The generation whose rows it replaces.
        source: Table with the rows that the target gets.
        version: Version of that table; None for the newest one.

    Returns:
        Transaction versions by application id, which keep writers of the past generation out; and
        the position that the rows of the other one have been read up to, None if unknown.

    Raises:
        StateError: The past generation's checkpoint is damaged, or can't be written.
        InputError: One of the tables can't be read.
        UnavailableError: A store does not answer.
    """
    # A driver that was taken for dead may not have begun its query: that needs an id to be fenced.
    make_query_id(past.generation.checkpoint)
    fence = dict.fromkeys(_writers(past.generation), NO_MORE)
    # What an earlier switch forbade to this generation is allowed again.
    ids = _writers(to.generation)
    allowed = dict.fromkeys(transactions_of(loaded.target, ids), _BEFORE_FIRST)
    written = transactions_of(source, ids, version)
    position: str | None = None
    # Rows of a stateful pipeline, or of earlier releases, say none.
    with suppress(StateError):
        position = find_position(source, version).text()
    return {**allowed, **written, **fence}, position


def make_query_id(checkpoint: Folder) -> None:
    """Give the query of a checkpoint its id before its first start, unless it has one.

    Spark takes the id that it finds, so that a target can refuse the query by it.

    Raises:
        StateError: The checkpoint can't be written, or its file ``metadata`` is damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    if offset_log.query_id(checkpoint) is None:
        text = json.dumps({"id": str(uuid.uuid4())})
        with checkpoint.writing():
            checkpoint.documents.put_if_absent(checkpoint.location("metadata"), text.encode())


def _writers(generation: Generation) -> list[str]:
    """Return a generation's Delta transaction ids: for MERGE, of the epoch, and its query's."""
    found = offset_log.query_id(generation.checkpoint)
    own = [generation.info.transaction_id, epoch_id(generation)]
    return [*own, *([] if found is None else [found])]
