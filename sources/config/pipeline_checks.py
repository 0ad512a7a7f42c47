"""Checks across a declaration: order by arrival, TRUNCATE, wider columns, policies, `select`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from sources.config.source.declared_source import DeclaredSource
from sources.config.source.exported_source import ExportedFiles, export_step
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.source_kinds import AnySource
from sources.config.table.sink import Sink
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.schema_policies import ALL_STOP
from sources.decoding.record_columns import EnvelopePart

if TYPE_CHECKING:
    from sources.config.pipeline import Pipeline


def check_arrival(source: FileSource, pipeline: Pipeline) -> None:
    """Refuse a source's ``order`` by arrival if single rows are left out, or files may be added.

    Called while the pipeline's declaration is validated.

    Raises:
        ValueError: A rule or ``event_time.outside`` has ``drop`` or ``quarantine``, or the next
            topic has ``on_gap: extend``.
    """
    rules = pipeline.row_rules.left_out.items()
    left_out = [f"rules.{name}.on_violation: {how}" for name, how in rules]
    if pipeline.event_time.outside in ("drop", "quarantine"):
        left_out.append(f"event_time.outside: {pipeline.event_time.outside}")
    if left_out:
        message = (
            f"source `{source.name}`: `order` by arrival can't be combined with `{left_out[0]}`: "
            "a file is read once for each interval, and its bad rows would be counted each time. "
            "Declare `fail` there, or remove `order`."
        )
        raise ValueError(message)
    topic = pipeline.next_topic(source.name)
    if topic is not None and topic.on_gap == "extend":
        message = (
            f"source `{source.name}`: `order` by arrival can't be combined with `on_gap: extend` "
            f"of `{topic.name}`: files that are found later may hold rows that arrived earlier. "
            "Declare `on_gap: fail` there, or remove `order`."
        )
        raise ValueError(message)


def check_follows_truncates(source: KafkaSource, sink: Sink) -> None:
    """Refuse a sink that can't carry out ``on_truncate: follow``.

    Only for a source that declares that. Needed are ``mode: merge``, ``deletes: hard``, and the
    columns that ``include`` fills with ``position`` and ``deleted`` as ``sequence`` and
    ``deleted``.

    Raises:
        ValueError: Says what the sink has to declare.
    """
    parts: dict[str, EnvelopePart] = {"sequence": "position", "deleted": "deleted"}
    wrong = [
        f"`sink.{field}` to be the column that `include` fills with `{part}`"
        for field, part in parts.items()
        if (name := source.envelope_column(part)) is None or getattr(sink, field) != name
    ]
    if sink.mode != "merge":
        wrong = ["`sink.mode: merge`, as appended rows are not removed"]
    elif not sink.removes_rows:
        wrong = ["`sink.deletes: hard`"]
    if wrong:
        message = (
            f"`on_truncate: follow` of source `{source.name}` needs {wrong[0]}. Declare that, or "
            "remove `on_truncate`: a TRUNCATE then stops the run."
        )
        raise ValueError(message)


def check_widened(source: KafkaSource, types: Mapping[str, str], pipeline: Pipeline) -> None:
    """Refuse wider types of columns in ``key`` or ``partition_by``, or before the last source.

    Args:
        source: The source.
        types: Declared new types by name of the column.
        pipeline: The pipeline.

    Raises:
        ValueError: Names the column.
    """
    fixed = pipeline.fixed_columns
    for name in types:
        if name in fixed or source is not pipeline.sources[-1]:
            what = (
                f"column `{name}` is in `key` or `partition_by`, whose types are those of a "
                "generation"
                if name in fixed
                else f"`{source.name}` is not the last source"
            )
            message = (
                f"`widened_columns` of source `{source.name}`: {what}. Declare the new type in "
                "`schema`, and begin a new generation with a new snapshot."
            )
            raise ValueError(message)


def check_schema_policies(source: KafkaSource, table: DeclaredTable, pipeline: Pipeline) -> None:
    """Refuse policies of ``on_schema_change`` that the pipeline has no means to carry out.

    Called when the declaration is validated.

    Args:
        source: The topic with the changes of a captured table.
        table: The declaration of that table, with the policies.
        pipeline: The pipeline that has the source.

    Raises:
        ValueError: The source is not the last one, no ``snapshot`` says how the database is
            asked, or the sink does not merge rows; says what is needed.
    """
    policies, sink = table.policies, pipeline.sink
    if policies == ALL_STOP and not table.emptied_columns:
        return
    snapshots = [each.snapshot for each in pipeline.sources if each.snapshot is not None]
    empties = policies.dropped == "follow" or bool(table.emptied_columns)
    needed = None
    if source is not pipeline.sources[-1]:
        needed = "to be declared for the last source"
    elif (policies.asks_database or policies.narrowed == "ignore") and not snapshots:
        needed = (
            "a source with a `snapshot` before it: its `dsn` is how the database is asked for what "
            "became of a column"
        )
    elif sink.mode != "merge" and (policies.changes_target or empties):
        needed = "`sink.mode: merge`"
    elif sink.history is not None and empties:
        needed = (
            "a sink without `history`, whose older versions keep their values: declare `dropped: "
            "ignore`, or `dropped_columns`"
        )
    if needed is not None:
        field = "emptied_columns" if policies == ALL_STOP else "on_schema_change"
        given = ": follow" if table.on_schema_change == "follow" else ""
        message = (
            f"`{field}{given}` of source `{source.name}` needs {needed}. Declare that, "
            f"or remove `{field}`: a changed column then stops the run, which names "
            "what to declare."
        )
        raise ValueError(message)
    for name in table.emptied_columns:
        if name in pipeline.fixed_columns:
            message = (
                f"`emptied_columns` of source `{source.name}`: column `{name}` is in `key` or "
                "`partition_by`. Begin a new generation with a new snapshot, without the column."
            )
            raise ValueError(message)


def check_export_names(sources: Sequence[AnySource]) -> None:
    """Refuse a source whose name is the name of the step that exports another source.

    Raises:
        ValueError: Names both.
    """
    names = {source.name for source in sources}
    for source in sources:
        if isinstance(source, ExportedFiles) and (step := export_step(source.name)) in names:
            message = (
                f"source `{step}` has the name of the step that exports source `{source.name}`. "
                "Rename one of them."
            )
            raise ValueError(message)


def check_selects(sources: Sequence[DeclaredSource]) -> None:
    """Refuse two sources whose declared output columns differ, if one of them has a ``select``.

    A source whose columns only its data has is not compared; the order of columns does not matter.

    Raises:
        ValueError: Names a column that one of them lacks.
    """
    named = [(source, names) for source in sources if (names := source.column_names)]
    for (one, left), (other, right) in permutations(named, 2):
        lacking = [name for name in right if name not in left]
        if lacking and (one.select or other.select):
            message = (
                f"source `{one.name}` has no column `{lacking[0]}`, which source `{other.name}` "
                "has; all sources need the same output columns. Add it to the `select` or `schema` "
                f"of `{one.name}`, or leave it out with the `select` of `{other.name}`."
            )
            raise ValueError(message)
