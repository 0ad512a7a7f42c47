"""Run of an adoption: all checks, then the decisions of a generation, then one commit.

The commit names the new owner, and comes last: a run before it is refused, as the table is not the
generation's. An interrupted adoption is repeated, and continues with what it had decided.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hybrid_extensions.adopt.adoptable_table import (
    FoundTable,
    find_table,
    require_possible_rows,
    require_same_columns,
    require_stateless,
)
from hybrid_extensions.adopt.plan import draft_adopted, followed_topic
from hybrid_extensions.adopt.position import Asked, offsets_of, start_at
from hybrid_extensions.adopt.result import AdoptResult
from hybrid_extensions.generations.files.table_snapshot import read_snapshot
from hybrid_extensions.generations.files.take_over import OutdatedError, TakeOver, prepare
from hybrid_extensions.generations.table_position import find_position
from sources.common.positions import StartPosition, nest
from sources.config.loader import LoadedPipeline
from sources.errors import StateError, leaving
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.seam import seam_rule
from sources.ledger import ledger_name, make_ledger
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.planning.transform_analysis import (
    TransformAnalysis,
    keep_analysis,
    request_by_plan,
)
from sources.serving import FIRST, OWNER, newest_generation, owner_properties
from sources.state.action_log import recorded
from sources.state.adopted_table import Adopted, read_adopted
from sources.state.generation import read_generation
from spark_jobs.launch.questions.table_places import find_places
from spark_jobs.launch.questions.transform_check import TransformCheck
from spark_jobs.run_state.target_record import TargetRecord
from spark_jobs.table.commit_position import TOPIC, CommitPosition
from spark_jobs.table.delta_table import NO_MORE, open_table
from spark_jobs.table.ownership.belonging import TargetSide
from spark_jobs.table.ownership.target_records import verified_record


class _Found(NamedTuple):
    """What an adoption takes, after all checks.

    Attributes:
        loaded: The pipeline, with the places of tables that it declares by their names.
        table: The table.
        said: What its commits say; None if that was not asked for.
        start: Start of the topic.
        analysis: Analysis of the transform.
        before: Application ids of those who wrote the table, as far as that is known.
    """

    loaded: LoadedPipeline
    table: FoundTable
    said: CommitPosition | None
    start: StartPosition
    analysis: TransformAnalysis
    before: list[str]


@leaving("Nothing was changed.")
def look(
    loaded: LoadedPipeline, asked: Asked, say: Callable[[str], None] = lambda _: None
) -> AdoptResult:
    """Return what :func:`adopt` would do, after all of its checks; nothing is written.

    Args, Raises: As for :func:`adopt`.
    """
    _require_no_state(loaded)
    return _result(_find(loaded, asked, say), is_applied=False)


@leaving("No row of the table was changed.")
def adopt(
    loaded: LoadedPipeline,
    asked: Asked,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
) -> AdoptResult:
    """Make the first generation of a pipeline from an existing table, which stays where it is.

    Writes plan, positions and ledger to the state, then one commit to the table. An interrupted
    call is repeated with the same arguments. Spark is started for the checks; the pipeline's run is
    not started.

    Args:
        loaded: The pipeline; its target is the table.
        asked: Version and position.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.

    Raises:
        StateError: The pipeline has a state, or one that is damaged; an adoption at another version
            or position was interrupted; its transform keeps state, or that is unknown; or the
            commits do not say the position.
        InputError: The last source is no followed topic, or another one is a topic or exported;
            there is no such table, it can't be read, or it does not fit the declaration; or the
            broker refuses.
        SeamError: Kafka has deleted records from the position on, or does not have it.
        UnavailableError: The broker or a store does not answer.
    """
    _require_no_state(loaded)
    found = _find(loaded, asked, say)
    with recorded(loaded.state, "adopt", by, FIRST, {"table version": str(found.table.version)}):
        draft = partial(draft_adopted, start=found.start, table_version=found.table.version)
        make_plan(found.loaded, draft=draft)
        context = PipelineContext.require(loaded)
        record = _record(context, found, asked)
        keep_analysis(context.generation, found.analysis)
        _decide(context, found.start)
        _commit(context, record)
    return _result(found, is_applied=True)


def _require_no_state(loaded: LoadedPipeline) -> None:
    """Refuse a pipeline that knows its position, unless an adoption of it has broken off."""
    if (name := newest_generation(loaded)) is None:
        return
    generation = read_generation(loaded.state, name)
    if read_adopted(generation) is not None:
        owner = open_table(loaded.target).metadata().configuration.get(OWNER)
        if owner != generation.info.transaction_id:
            return
    message = (
        f"Pipeline `{loaded.pipeline.name}` has a state ({loaded.state}), so its generation {name} "
        "knows its own position. Nothing was adopted."
    )
    hint = (
        "To continue with it, run `hybrid run P`. If its checkpoint is lost, or it is of another "
        "table, move the state folder away, and try again."
    )
    raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)


def _find(loaded: LoadedPipeline, asked: Asked, say: Callable[[str], None]) -> _Found:
    """Check everything; nothing is written."""
    topic = followed_topic(loaded)
    say("Reading the table's log.")
    table = find_table(loaded, asked.version)
    said = find_position(loaded.target, table.version) if asked.by_commits else None
    log = KafkaLog(topic)
    start = start_at(offsets_of(asked, said, topic, log), topic, log)
    say("Checking the transform, and the rows of the table.")
    with TransformCheck(loaded) as check:
        loaded = find_places(loaded, check.process)
        plan, _ = draft_adopted(loaded, start, table.version)
        analysis = check.analyze(request_by_plan(loaded, plan))
    require_stateless(loaded, analysis)
    require_same_columns(loaded, table, analysis)
    require_possible_rows(loaded, table, analysis)
    owner = table.opened.metadata().configuration.get(OWNER)
    writers = [owner, None if said is None else said.writer]
    before = [each for each in writers if each is not None]
    return _Found(loaded, table, said, start, analysis, before)


def _record(context: PipelineContext, found: _Found, asked: Asked) -> Adopted:
    """Record the adoption; refuse it if an interrupted one was different."""
    mine = Adopted(
        table_version=found.table.version,
        newest=found.table.newest,
        offsets=found.start.offsets(),
        by_commits=asked.by_commits,
        before=found.before,
    )
    kept = context.generation.put_if_absent(Adopted.NAME, mine)
    if kept == mine:
        return kept
    message = (
        f"Another adoption of version {kept.table_version} of the table was interrupted: the "
        "table has changed since, or another position was declared. Nothing was adopted."
    )
    hint = f"Move the state folder {context.loaded.state} away, and adopt the table again."
    raise StateError(message, hint, generation=context.generation.name)


def _decide(context: PipelineContext, start: StartPosition) -> None:
    """Write end positions, start position and ledger, as sources and a hand-over would have."""
    state, topic = context.switch_state, followed_topic(context.loaded)
    for part in context.plan.files:
        state.finish(part.end)
    log = KafkaLog(topic)
    decided = state.switch(topic.name, lambda _: start, log)
    ends, seam_end = state.ends_before(topic.name), decided.offsets()
    rule = seam_rule(context.pipeline, ends, decided, seam_end)
    ledger = make_ledger(decided, ends, rule, seam_end, log, topic)
    context.generation.put_if_absent(ledger_name(topic.name), ledger)


def _commit(context: PipelineContext, record: Adopted) -> None:
    """Let the table name its new owner, in one commit that no other writer is in between of."""
    target, generation = context.loaded.target, context.generation
    side = TargetSide.of(context.loaded, generation)
    known = verified_record(side, TargetRecord(), record.newest)
    generation.replace(TargetRecord.NAME, known)
    writer = f"{generation.info.transaction_id}-adopted"
    topic = context.plan.topic
    assert topic is not None  # the last source is one
    position = CommitPosition(
        generation=generation.name,
        writer=writer,
        batch=0,
        sources={topic.source: {TOPIC: nest(record.offsets)}},
        topics=topic.topics,
    )
    newest = read_snapshot(target, record.newest)
    is_newest = record.table_version == record.newest
    taken = TakeOver(newest, newest)
    if not is_newest:
        taken = prepare(target, target, record.table_version)
    # Whoever wrote before, and was taken for dead, writes nothing more.
    fence = dict.fromkeys(record.before, NO_MORE)
    try:
        taken.commit({**fence, writer: 0}, owner_properties(generation), position.text())
    except OutdatedError as error:
        hint = (
            f"End what writes to the table. Then move the state folder {context.loaded.state} "
            "away, and adopt the table again: its rows may end at another position now."
        )
        raise StateError(error.message, hint, table=target.url) from None


def _result(found: _Found, *, is_applied: bool) -> AdoptResult:
    return AdoptResult(
        table=found.table.opened.table_uri,
        version=found.table.version,
        newest=found.table.newest,
        rows=found.table.rows,
        files=found.table.files,
        source=found.start.source,
        offsets=nest(found.start.offsets()),
        said=None
        if found.said is None
        else f"micro-batch {found.said.batch} of {found.said.generation}",
        is_applied=is_applied,
        notes=_notes(found.loaded),
    )


def _notes(loaded: LoadedPipeline) -> list[str]:
    sink = loaded.pipeline.sink
    if sink.deleted is None or not sink.removes_rows:
        return []
    return [
        "When removed rows were deleted is in no table: an older change of one that is sent again "
        "brings it back until its delete is sent again, too."
    ]
