"""Which column changes that a query met are followed (`on_schema_change`), and which stop it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import GoneColumns, NewColumns, UnknownDefault
from hybrid_extensions.cdc.databases.kinds import access_to
from hybrid_extensions.cdc.debezium.changed_columns_errors import (
    ChangedColumnsError,
    ColumnsOfChange,
    WidenedColumnError,
    columns_of_change,
)
from sources.common.positions import EndPosition
from sources.common.times import now_ms
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.added_columns import AddedColumn
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.renamed_columns import all_names
from sources.decoding.changes.widened_columns import is_widened
from sources.errors import ErrorReport
from sources.planning.context import PipelineContext
from sources.planning.topics.followed_columns import FollowedChange, Kind, not_followed

# Types that Kafka Connect's schema identifies exactly.
_PLAIN = {"boolean", "smallint", "int", "bigint", "float", "double"}


def changes_to_follow(
    context: PipelineContext, failure: ErrorReport
) -> Sequence[FollowedChange] | None:
    """Return the changes that a failed query met and the pipeline follows; None to stop.

    Implements :meth:`sources.captured_tables.CapturedTables.changes_to_follow`.
    """
    source = context.pipeline.sources[-1]
    is_judged = failure.kind in (ChangedColumnsError.kind, WidenedColumnError.kind)
    if not (is_judged and isinstance(source, KafkaSource)) or (table := source.changes) is None:
        return None
    try:
        if failure.kind == ChangedColumnsError.kind:
            return _changed(context, source, table, failure)
        if table.policies.widened == "follow":
            return _widened(context, source, table, failure)
    except UnknownDefault as unknown:
        raise not_followed(failure, str(unknown)) from None
    return None


def _change(kind: Kind, column: str, report: ErrorReport, **more: Any) -> FollowedChange:
    """Return what is kept of a change of a column, with where it was met."""
    fields = report.fields
    return FollowedChange(
        kind=kind,
        column=column,
        topic=str(fields["topic"]),
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        position=str(fields["position"]) if "position" in fields else None,
        at_ms=now_ms(),
        **more,
    )


def _changed(
    context: PipelineContext, source: KafkaSource, table: DeclaredTable, report: ErrorReport
) -> list[FollowedChange] | None:
    """Return what follows from the columns of a change; None if one of them stops the run."""
    columns, policies = columns_of_change(report), table.policies
    if columns.gone and policies.dropped == policies.renamed == "stop":
        return None
    gone = _gone(context, source, table, report, columns) if columns.gone else {}
    renamed = {name: new for name, new in gone.items() if new is not None}
    dropped = [name for name in gone if name not in renamed]
    new = {name: kind for name, kind in columns.new.items() if name not in renamed.values()}
    needed = [
        *([policies.renamed] if renamed else []),
        *([policies.dropped] if dropped else []),
        *([policies.added] if new else []),
    ]
    if "stop" in needed:
        return None
    if dropped and policies.dropped == "follow" and (fixed := _fixed(context, dropped)):
        reason = f"`{fixed}` is in `key` or `partition_by`, which are those of a generation"
        raise UnknownDefault(reason)
    kind: Kind = "emptied" if policies.dropped == "follow" else "dropped"
    changes = [_change("renamed", name, report, name=new) for name, new in renamed.items()]
    changes += [_change(kind, name, report) for name in dropped]
    if new and policies.added == "ignore":
        return [*changes, *(_change("ignored", name, report) for name in new)]
    added = _added(context, source, table, report, new, [*renamed.values()]) if new else {}
    for name, column in added.items():
        default = column.model_dump(mode="json")["default"]
        changes.append(_change("added", name, report, type=column.type, default=default))
    return changes


def _fixed(context: PipelineContext, names: Collection[str]) -> str | None:
    """Return a column that identifies or places rows; None if none of some does."""
    return next((name for name in names if name in context.pipeline.fixed_columns), None)


def _gone(
    context: PipelineContext,
    source: KafkaSource,
    table: DeclaredTable,
    report: ErrorReport,
    columns: ColumnsOfChange,
) -> dict[str, str | None]:
    """Return the new names of the columns that a change lacks; None for those that were dropped."""
    asked = GoneColumns(
        _question(context, source, table, report, [*columns.new]),
        {name: table.name_in_table(name) for name in columns.gone},
        {name: table.name_in_table(name) for name in columns.present},
        str(report.fields["position"]) if "position" in report.fields else None,
    )
    return access_to(asked.new.options.dsn).find_gone_columns(asked)


def _question(
    context: PipelineContext,
    source: KafkaSource,
    table: DeclaredTable,
    report: ErrorReport,
    names: Collection[str],
    renamed: Collection[str] = (),
) -> NewColumns:
    """Return the question about new columns of a change.

    Args:
        context: The pipeline.
        source: The topic of the changes.
        table: Its table.
        report: The error of the change.
        names: Names of the columns.
        renamed: New names of known columns, besides those that are declared.
    """
    end = _end(context)
    others = {name for each in table.renamed_columns.values() for name in all_names(each)}
    return NewColumns(
        _options(context),
        source,
        str(report.fields.get("connector", "")),
        names,
        [*source.value_columns, *table.added_types, *table.ignored_columns],
        {*others, *renamed},
        None if end is None else end.snapshot,
        None if end is None else end.definition,
    )


def _added(
    context: PipelineContext,
    source: KafkaSource,
    table: DeclaredTable,
    report: ErrorReport,
    columns: Mapping[str, str | None],
    renamed: Collection[str],
) -> dict[str, AddedColumn]:
    """Return the columns of a change that nothing declares, as the database knows them."""
    new = _question(context, source, table, report, [*columns], renamed)
    found = access_to(new.options.dsn).find_added_columns(new)
    for name, kind in columns.items():
        now = found[name].type
        if kind is not None and kind in _PLAIN and not is_widened(kind, now):
            reason = f"`{name}` was added as {kind}, and is {now} now"
            raise UnknownDefault(reason)
    return found


def _widened(
    context: PipelineContext, source: KafkaSource, table: DeclaredTable, report: ErrorReport
) -> list[FollowedChange]:
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
        reason = f"the database's type of `{name}` is {now}, which is no wider one"
        if now is None:
            reason = f"the table in the database has no column `{name}` that can be captured"
        raise UnknownDefault(reason)
    if not is_widened(current[name], now):
        reason = f"`{name}` is {now} in the database, which does not hold every {current[name]}"
        raise UnknownDefault(reason)
    return [
        _change("widened", each, report, type=types[each])
        for each, before in current.items()
        if each in declared
        and each not in fixed
        and each in types
        and types[each] != before
        # Of a `float` the schema of each change has to tell which digits it has.
        and (each == name or before != "float")
        and is_widened(before, types[each])
    ]


def _options(context: PipelineContext) -> SnapshotOptions:
    """Return how the captured database is reached; the declaration is refused without it."""
    snapshots = [each.snapshot for each in context.pipeline.sources]
    return next(each for each in reversed(snapshots) if isinstance(each, SnapshotOptions))


def _end(context: PipelineContext) -> EndPosition | None:
    """Return the end of the last source with a snapshot; None if it is not known."""
    ends = context.switch_state.ends_before(context.pipeline.sources[-1].name)
    return next((end for end in reversed(ends) if end.snapshot is not None), None)
