"""Following columns that a captured table got: what a driver does about a change that has them.

The micro-batch that meets the change fails before it writes. The driver asks the database for type
and default, keeps both in the state of the generation, and builds the query again on the same
checkpoint: the start of a query adds the columns to the target. A driver that is killed before the
state is written meets the change again; after that, the next one completes the target.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from sources.common.counting import counted
from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import now_ms
from sources.config.kafka_source import KafkaSource
from sources.config.snapshot import SnapshotOptions
from sources.databases.captured_table import UnknownDefault
from sources.databases.kinds import find_added_columns
from sources.decoding.added_columns import AddedColumn
from sources.decoding.changed_columns import new_columns_of
from sources.errors import ErrorReport, HybridError, error_of
from sources.planning.context import PipelineContext
from sources.planning.followed_columns import FollowedChange, keep_followed
from spark_jobs.driver.reporter import Reporter
from spark_jobs.readers.spark_errors import report_of

_WIDER = {
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
_PLAIN = {"boolean", "bigint", "double", *_WIDER}


def follow_columns_of(
    context: PipelineContext, error: Exception, reporter: Reporter
) -> PipelineContext | None:
    """Follow the columns that a query failed at, if that is what it failed at, and declared.

    Args:
        context: The pipeline and its state.
        error: Failure of the query.
        reporter: Gets a line with what was followed.

    Returns:
        The pipeline with these columns, with which the query has to be built again; None if the
        query failed for another reason, or columns are not followed.

    Raises:
        InputError: The columns can't be followed exactly; contains why, and what to declare.
        UnavailableError: The database does not answer.
        StateError: The state can't be written.
    """
    report, source = report_of(error), context.pipeline.sources[-1]
    new = new_columns_of(report)
    if not new or not isinstance(source, KafkaSource) or source.on_schema_change != "follow":
        return None
    try:
        added = _ask(context, source, new)
    except UnknownDefault as unknown:
        raise _not_followed(report, str(unknown)) from None
    fields = report.fields
    changes = [
        FollowedChange(
            column=name,
            type=column.type,
            default=column.model_dump(mode="json")["default"],
            topic=str(fields["topic"]),
            partition=int(fields["partition"]),
            offset=int(fields["offset"]),
            position=str(fields["position"]) if "position" in fields else None,
            at_ms=now_ms(),
        )
        for name, column in added.items()
    ]
    keep_followed(context.generation, changes)
    listed = "; ".join(str(each) for each in changes)
    text = f"{counted(len(changes), 'change')} of table `{source.table}` followed: {listed}."
    sys.stderr.write(f"{text}\n")
    reporter.listeners.log(text)
    return PipelineContext(context.loaded, context.generation)


def _ask(
    context: PipelineContext, source: KafkaSource, new: Mapping[str, str | None]
) -> dict[str, AddedColumn]:
    """Return the columns as the database knows them.

    Raises:
        UnknownDefault: They can't be followed exactly.
    """
    snapshots = [each.snapshot for each in context.pipeline.sources]
    # The declaration is refused without one.
    options = next(each for each in reversed(snapshots) if isinstance(each, SnapshotOptions))
    known = [*source.value_columns, *source.added_types, *(source.ignored_columns or [])]
    found = find_added_columns(options, str(source.table), new, known, _seen(context))
    for name, kind in new.items():
        now = found[name].type
        is_plain = kind in _PLAIN
        if kind is not None and is_plain and now not in (kind, *_WIDER.get(kind, ())):
            reason = f"`{name}` was added as {kind}, and is {now} now"
            raise UnknownDefault(reason)
    return found


def _seen(context: PipelineContext) -> int | None:
    """Return the first transaction that the snapshot may not have seen; None if it is not known."""
    ends = context.switch_state.ends_before(context.pipeline.sources[-1].name)
    snapshots = [end.snapshot for end in ends if isinstance(end.snapshot, PostgresSnapshot)]
    return snapshots[-1].xmin if snapshots else None


def _not_followed(report: ErrorReport, reason: str) -> HybridError:
    """Return the error of a change that can't be followed: as without `follow`, with the reason."""
    message = f"{report.message} It is not followed: {reason}."
    return error_of(report.model_copy(update={"message": message}))
