"""Columns added to the source later (`added_columns`): old rows get the default, or are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltalake import DeltaTable, Field, Transaction
from pyspark.sql import DataFrame

from sources.common.sql.sql_names import in_backticks
from sources.common.state_document import Part, Record
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import StateError
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.sink.later_columns import table_schema, with_added
from spark_jobs.inside.sink.merging.clauses import When, of_source
from spark_jobs.inside.sink.merging.keys import Match
from spark_jobs.inside.sink.merging.merge_once import merge_once
from spark_jobs.table.commit_log import CommitLog

_NAME = "columns.json"


class FollowedColumn(Part):
    """Column that was added to the target; existing rows get its default.

    Attributes:
        type: Its Spark SQL type.
        default: The default as text; None for null.
        is_done: Whether the rows have the default; no query is started before that.
        table: Id of the target.
        at_version: Version of the target after which it holds changes other than this addition.
    """

    type: str
    default: str | None
    is_done: bool
    table: str
    at_version: int


class ColumnsLog(Record):
    """State document of a generation: later source columns that the target got, or ignores.

    Attributes:
        followed: The columns that were added to the target, by name.
        left_out: The columns that the target lacks although changes may have held them, with the
            target's version at that time.
    """

    followed: dict[str, FollowedColumn]
    left_out: dict[str, int]


def follow_columns(
    target: Folder,
    table: DeltaTable,
    rows: DataFrame,
    generation: Generation,
    added: Mapping[str, AddedColumn],
    ignored: Collection[str],
) -> None:
    """Add later columns of the source to the target; existing rows get the default.

    Call it before a query is started, so that no change with a value in the column was merged
    before. The step is recorded before it is done: if it is interrupted, it is repeated, also with
    another default.

    Args:
        target: Folder of the target.
        table: The target; it has the columns afterwards.
        rows: DataFrame that the transform returns; a column that it lacks is not added.
        generation: State of the generation that owns the target; it keeps the record.
        added: Type and default of each column that the source got later, by name.
        ignored: Columns of the source that are left out by declaration.

    Raises:
        StateError: Rows may hold other values already: of a change that the table has left out, of
            the transform, or with another type or default.
        UnavailableError: The login to the table's store has expired, or the state's store does not
            answer.
    """
    log = generation.read(_NAME, ColumnsLog) or ColumnsLog(followed={}, left_out={})
    begun, there = table.version(), {field.name for field in table.schema().fields}
    followed = dict(log.followed)
    for name in (each for each in rows.columns if each in added):
        known = followed.get(name)
        entry = _entry(table, added[name], begun)
        if known is None and begun:
            _require_new(name, there, log, begun)
        if known is not None and known.is_done:
            if (known.type, known.default) == (entry.type, entry.default):
                continue
            _require_untouched(target, name, known, entry)
        followed[name] = entry
        generation.replace(_NAME, log.model_copy(update={"followed": followed}))
        if name not in there:
            table.alter.add_columns(_field(rows, name))
        # A table that was just created has no rows.
        if begun and (known is not None or entry.default is not None):
            _fill(rows, target, table.version(), name, added, generation)
            table.update_incremental()
    ended = {
        name: each.model_copy(update={"is_done": True, "at_version": table.version()})
        if each.at_version == begun
        else each
        for name, each in followed.items()
    }
    left_out = sorted({*ignored, *(each for each in added if each not in rows.columns)})
    # The first version is kept: rows of all versions since then lack the values.
    first = {**dict.fromkeys(left_out, table.version()), **log.left_out}
    made = ColumnsLog(followed=ended, left_out=first)
    if made != log:
        generation.replace(_NAME, made)


def _entry(table: DeltaTable, column: AddedColumn, version: int) -> FollowedColumn:
    return FollowedColumn(
        type=column.type,
        default=None if column.value is None else str(column.value),
        is_done=False,
        table=str(table.metadata().id),
        at_version=version,
    )


def _require_new(name: str, there: Collection[str], log: ColumnsLog, version: int) -> None:
    """Refuse a column whose values existing rows lack, or that is the transform's own."""
    if name in there:
        message = (
            f"`added_columns`: the target already has a column `{name}` of the transform, which "
            "holds other values than the source's column. The column was not added."
        )
        hint = (
            f"Let the transform give its own column a name other than `{name}`, and begin a new "
            "generation (`hybrid generation new P`); or remove the column from `added_columns` and "
            "name it in `ignored_columns`."
        )
        raise StateError(message, hint, column=name, field="added_columns")
    if log.left_out.get(name, version) != version:
        message = (
            f"`added_columns`: `{name}` was left out so far, so rows lack its values: those "
            f"written since version {log.left_out[name]} of the target, which is at {version}. "
            "They would get the default instead. The column was not added."
        )
        hint = (
            "Leave the column out as before, or begin a new generation, which reads all changes "
            "again: `hybrid generation new P`."
        )
        raise StateError(message, hint, column=name, field="added_columns")


def _require_untouched(
    target: Folder, name: str, known: FollowedColumn, found: FollowedColumn
) -> None:
    """Refuse another type, or another default for rows that may hold values of changes."""
    is_same = (known.type, known.table) == (found.type, found.table)
    # Each start of a query makes a commit, too, which changes no row.
    since = CommitLog(target).between(known.at_version, found.at_version)
    if not is_same or any(commit.changes_rows for commit in since):
        why = "rows were written since, which may hold values of their own"
        if known.table != found.table:
            why = "the table was created again since then"
        if known.type != found.type:
            why = "a column's type can't be changed"
        message = (
            f"`added_columns`: the target got `{name}` as {known.type} {_default(known)}. Now it "
            f"is declared as {found.type} {_default(found)}, but {why}. The column was not changed."
        )
        hint = (
            f"Declare `{name}` as it was, or begin a new generation, which fills the column by the "
            "new declaration: `hybrid generation new P`."
        )
        raise StateError(message, hint, column=name, field="added_columns")


def _default(column: FollowedColumn) -> str:
    return "without a default" if column.default is None else f"with the default {column.default}"


def _fill(
    rows: DataFrame,
    target: Folder,
    version: int,
    name: str,
    added: Mapping[str, AddedColumn],
    generation: Generation,
) -> None:
    # Delta's UPDATE takes no parameters.
    merge_once(
        with_added(rows.sparkSession.range(1), {name: added[name]}),
        target,
        Match("true", {}),
        [When("MATCHED", "UPDATE", values=of_source([name]))],
        # So that the commit is recognized as the pipeline's own.
        Transaction(f"{generation.info.transaction_id}-columns", version + 1),
    )


def _field(rows: DataFrame, name: str) -> list[Field]:
    fields: list[Field] = table_schema(rows.select(in_backticks(name)), [name]).fields
    return fields
