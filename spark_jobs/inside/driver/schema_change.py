"""Schema changes of a captured table: the driver adopts added or widened columns.

The micro-batch that meets the change fails before it writes. The driver asks the database for type
and default, keeps both in the state of the generation, and builds the query again on the same
checkpoint: the start of a query adds or widens the columns of the target. A driver that is killed
before the state is written meets the change again; after that, the next one completes the target.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from sources.common.counting import counted
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.positions import now_ms
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.databases.captured_table import NewColumns, UnknownDefault
from sources.databases.kinds import access_to
from sources.decoding.changes.added_columns import AddedColumn
from sources.decoding.changes.changed_columns import (
    NewColumnsError,
    WidenedColumnError,
    new_columns_of,
)
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.renamed_columns import all_names
from sources.decoding.changes.widened_columns import is_widened
from sources.errors import ErrorReport, HybridError, error_of
from sources.planning.context import PipelineContext
from sources.planning.topics.followed_columns import FollowedChange, keep_followed
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.readers.spark_errors import report_of

# Types that Kafka Connect's schema identifies exactly.
_PLAIN = {"boolean", "smallint", "int", "bigint", "float", "double"}


def follow_columns_of(
    context: PipelineContext, error: Exception, reporter: Reporter
) -> PipelineContext | None:
    """Adopt the columns, added or widened in a captured table, that a query has failed at.

    Asks the database for types and defaults, and keeps them in the generation's state; the target
    gets the columns when the query is built again. Called with the failure of a query.

    Returns:
        The pipeline with these columns, with which the query has to be built again; None if the
        query failed for another reason, or columns are not followed (``on_schema_change``).

    Raises:
        HybridError: The change can't be followed: the error of the query with the reason.
        UnavailableError: The database does not answer.
    """
    report, source = report_of(error), context.pipeline.sources[-1]
    is_followed = report.kind in (NewColumnsError.kind, WidenedColumnError.kind)
    if not (is_followed and isinstance(source, KafkaSource)):
        return None
    if (table := source.changes) is None or not table.follows_columns:
        return None
    found: Mapping[str, AddedColumn | str]
    try:
        if report.kind == NewColumnsError.kind:
            found = _added(context, source, table, report)
        else:
            found = _widened(context, source, table, report)
    except UnknownDefault as unknown:
        raise _not_followed(report, str(unknown)) from None
    changes = [_change(name, column, report) for name, column in found.items()]
    keep_followed(context.generation, changes)
    made = PipelineContext(context.loaded, context.generation)
    if made.pipeline == context.pipeline:
        # Or the query would fail at the same change for ever.
        raise _not_followed(report, "the pipeline's file declares the column otherwise")
    listed = "; ".join(str(each) for each in changes)
    text = f"{counted(len(changes), 'change')} of table `{table.table}` followed: {listed}."
    sys.stderr.write(f"{text}\n")
    reporter.listeners.log(text)
    return made


def _change(name: str, column: AddedColumn | str, report: ErrorReport) -> FollowedChange:
    """Return what is kept of an added column, or of one that was widened to a type."""
    fields, added = report.fields, column if isinstance(column, AddedColumn) else None
    return FollowedChange(
        kind="widened" if added is None else "added",
        column=name,
        type=str(column) if added is None else added.type,
        default=None if added is None else added.model_dump(mode="json")["default"],
        topic=str(fields["topic"]),
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        position=str(fields["position"]) if "position" in fields else None,
        at_ms=now_ms(),
    )


def _added(
    context: PipelineContext, source: KafkaSource, table: DeclaredTable, report: ErrorReport
) -> dict[str, AddedColumn]:
    """Return the columns of a change that nothing declares, as the database knows them."""
    known = [*source.value_columns, *table.added_types, *table.ignored_columns]
    names, connector = new_columns_of(report), str(report.fields.get("connector", ""))
    renamed = {name for each in table.renamed_columns.values() for name in all_names(each)}
    new = NewColumns(
        _options(context), source, connector, [*names], known, renamed, _snapshot(context)
    )
    found = access_to(new.options.dsn).find_added_columns(new)
    for name, kind in names.items():
        now = found[name].type
        if kind is not None and kind in _PLAIN and not is_widened(kind, now):
            reason = f"`{name}` was added as {kind}, and is {now} now"
            raise UnknownDefault(reason)
    return found


def _widened(
    context: PipelineContext, source: KafkaSource, table: DeclaredTable, report: ErrorReport
) -> dict[str, str]:
    """Return the wider types that the database has now, of all columns: one stop is enough."""
    name, fixed = str(report.fields["column"]), context.pipeline.fixed_columns
    options, declared = _options(context), source.value_columns
    now_types = access_to(options.dsn).find_types(options, table.table)
    current = table.current(declared)
    there = {each: table.name_in_table(each) for each in current}
    types = {each: now_types[known] for each, known in there.items() if known in now_types}
    if name in fixed:
        reason = f"`{name}` is in `key` or `partition_by`, whose types are those of a generation"
        raise UnknownDefault(reason)
    if name not in declared:
        reason = f"`{name}` was added in this generation, and widened later"
        raise UnknownDefault(reason)
    if (now := types.get(name)) is None or now == current[name]:
        reason = f"the database's type of `{name}` is {now or 'unknown'}, which is no wider one"
        raise UnknownDefault(reason)
    if not is_widened(current[name], now):
        reason = f"`{name}` is {now} in the database, which does not hold every {current[name]}"
        raise UnknownDefault(reason)
    return {
        each: types[each]
        for each, before in current.items()
        if each in declared
        and each not in fixed
        and each in types
        and types[each] != before
        # Of a `float` the schema of each change has to tell which digits it has.
        and (each == name or before != "float")
        and is_widened(before, types[each])
    }


def _options(context: PipelineContext) -> SnapshotOptions:
    """Return how the captured database is reached; the declaration is refused without it."""
    snapshots = [each.snapshot for each in context.pipeline.sources]
    return next(each for each in reversed(snapshots) if isinstance(each, SnapshotOptions))


def _snapshot(context: PipelineContext) -> DatabaseSnapshot | None:
    """Return what the last snapshot contains; None if it is not known."""
    ends = context.switch_state.ends_before(context.pipeline.sources[-1].name)
    snapshots = [end.snapshot for end in ends if end.snapshot is not None]
    return snapshots[-1] if snapshots else None


def _not_followed(report: ErrorReport, reason: str) -> HybridError:
    """Return the error of a change that can't be followed: as without `follow`, with the reason."""
    message = f"{report.message} It is not followed: {reason}."
    return error_of(report.model_copy(update={"message": message}))
