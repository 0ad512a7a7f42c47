"""Comparison of two transforms, column by column, by their expressions in Spark's plans.

Both are applied to the same empty DataFrame, so that their expressions refer to its columns by the
same ids. Only transforms that compute each row from one row, and pass on or leave out the same
ones, can be compared: a projection over at most one condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from sources.changed_columns.documents import ChangedColumn, ColumnDifference
from sources.common.schema import ddl, parse_schema
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from spark_jobs.changed_columns.fitness import RERUN
from spark_jobs.inside.changed_columns.expressions import (
    has_subquery,
    is_deterministic,
    is_same,
    over_table,
)
from spark_jobs.inside.checkpoint.plan_nodes import analyzed_plan, each_of, kind_of, number_of
from spark_jobs.inside.query.transform.user_transform import load_transform

_MOST_STEPS = 100


class Computed(NamedTuple):
    """A changed column, ready to be selected from the table.

    Attributes:
        name: Its name.
        value: Its value, computed from columns of the table.
    """

    name: str
    value: Column


def compare_transforms(
    spark: SparkSession, before: LoadedPipeline, now: LoadedPipeline, given: dict[str, str]
) -> ColumnDifference:
    """Return how the columns of two transforms differ.

    Args:
        spark: The Spark session.
        before: The pipeline as it was declared for the generation whose rows are to be taken.
        now: The pipeline as it is declared now.
        given: Columns that both transforms get, as names and Spark SQL types.

    Raises:
        InputError: The transforms return other rows, one of them does more than compute columns of
            one row, or a changed column needs what the table does not have; names it.
    """
    old, new = _forms(spark, before, now, given)
    partitions = now.pipeline.sink.partition_by
    inside = [field for field in old.schema if field.name not in partitions]
    table = spark.createDataFrame(spark.sparkContext.emptyRDD(), StructType(inside))
    computed = _computed(old, new, table)
    changed = [
        ChangedColumn(
            name=name,
            type=new.schema[name].dataType.simpleString(),
            inputs=sorted({str(each.name()) for each in each_of(expression.references().toSeq())}),
        )
        for name, expression in computed.items()
    ]
    names = new.schema.names
    kept = [name for name in names if name not in computed]
    _require_kept(now, kept)
    return ColumnDifference(
        changed=changed,
        kept=kept,
        removed=[name for name in old.schema.names if name not in names],
        before=load_transform(before).digest(),
        code=load_transform(now).digest(),
    )


def computed_columns(
    before: LoadedPipeline, now: LoadedPipeline, given: dict[str, str], table: DataFrame
) -> list[Computed]:
    """Return the changed columns as expressions over the table, as :func:`compare_transforms`.

    Args:
        before: The pipeline as it was declared for the table.
        now: The pipeline as it is declared now.
        given: Columns that both transforms get, as names and Spark SQL types.
        table: The files of the table, with the columns that the old transform returns but for those
            that the table is partitioned by.

    Raises:
        InputError: As :func:`compare_transforms`.
    """
    spark = table.sparkSession
    old, new = _forms(spark, before, now, given)
    jvm: Any = spark._jvm
    to_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    return [
        Computed(name, ClassicColumn(to_column(expression)))
        for name, expression in _computed(old, new, table).items()
    ]


@dataclass(frozen=True)
class _Form:
    """A transform as a projection over a condition.

    Attributes:
        name: Name of the transform.
        schema: Its columns.
        values: Expression of each column over the input, by name.
        condition: Which rows it passes on; None if all.
    """

    name: str
    schema: StructType
    values: dict[str, Any]
    condition: Any | None


def _forms(
    spark: SparkSession, before: LoadedPipeline, now: LoadedPipeline, given: dict[str, str]
) -> tuple[_Form, _Form]:
    """Return both transforms over the same input; refuse other rows."""
    rows = spark.createDataFrame(spark.sparkContext.emptyRDD(), ddl(parse_schema(given)))
    old, new = _form(before, rows), _form(now, rows)
    conditions = [each for each in (old.condition, new.condition) if each is not None]
    are_same = len(conditions) == len((old, new)) and is_same(*conditions)
    is_known = are_same and is_deterministic(conditions[0]) and not has_subquery(conditions[0])
    if conditions and not is_known:
        message = (
            f"`transform: {new.name}` passes on other rows than before: its conditions differ, "
            "or can't be compared. Rows that the table lacks can't be computed from it."
        )
        raise InputError(message, RERUN, field="transform", value=new.name)
    return old, new


def _form(loaded: LoadedPipeline, given: DataFrame) -> _Form:
    name = loaded.pipeline.transform.name
    rows = load_transform(loaded)(given)
    plan = _simplified(rows)
    values = {str(each.name()): each for each in each_of(plan.output())}
    if kind_of(plan) == "Project":
        values = {str(each.name()): _value(each) for each in each_of(plan.projectList())}
        plan = plan.child()
    condition = None
    if kind_of(plan) == "Filter":
        condition, plan = plan.condition(), plan.child()
    known = {number_of(each) for each in each_of(analyzed_plan(given).output())}
    is_leaf = not any(True for _ in each_of(plan.children()))
    if not is_leaf or {number_of(each) for each in each_of(plan.output())} != known:
        message = (
            f"`transform: {name}` does more than compute columns of one row from columns of one "
            f"row (`{kind_of(plan)}` in Spark's plan), so its columns can't be compared one by one."
        )
        raise InputError(message, RERUN, field="transform", value=name)
    return _Form(name, rows.schema, values, condition)


def _simplified(rows: DataFrame) -> Any:
    """Return the plan of a transform with neighbouring projections and conditions put together.

    By the rules of Spark's own optimizer; one that can't be put together stays.
    """
    jvm: Any = rows.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    rules = catalyst.optimizer
    plan = catalyst.analysis.EliminateSubqueryAliases.apply(analyzed_plan(rows))
    for _ in range(_MOST_STEPS):
        pushed = rules.CombineFilters.apply(rules.PushPredicateThroughNonJoin.apply(plan))
        done = rules.CollapseProject.apply(pushed, True)
        if done.fastEquals(plan):
            break
        plan = done
    return plan


def _value(named: Any) -> Any:
    return named.child() if kind_of(named) == "Alias" else named


def _computed(old: _Form, new: _Form, table: DataFrame) -> dict[str, Any]:
    """Return the expressions of the changed columns over the table, by name."""
    attributes = dict(
        zip(table.columns, each_of(table._jdf.queryExecution().analyzed().output()), strict=True)
    )
    known = [
        (value, attributes[name])
        for name, value in old.values.items()
        if name in attributes and is_deterministic(value) and value.references().size()
    ]
    by_case = {name.lower(): name for name in old.values}
    computed = {}
    for name, value in new.values.items():
        if (before := by_case.get(name.lower(), name)) != name:
            message = f"Column `{before}` is called `{name}` now, which differs only in its case."
            raise InputError(message, RERUN, column=name)
        same_type = name in old.values and old.schema[name].dataType == new.schema[name].dataType
        if same_type and is_same(value, old.values[name]):
            continue
        _require_computable(name, value)
        computed[name] = over_table(name, value, known, table.sparkSession.sparkContext)
    return computed


def _require_computable(name: str, value: Any) -> None:
    if not is_deterministic(value):
        message = (
            f"Column `{name}` is not deterministic: whether its values would be others can't be "
            "known, nor be checked afterwards."
        )
        raise InputError(message, RERUN, column=name)
    if has_subquery(value):
        message = f"Column `{name}` is computed from another table, by a subquery."
        raise InputError(message, RERUN, column=name)


def _require_kept(now: LoadedPipeline, kept: Sequence[str]) -> None:
    """Refuse another value of a column that says which row it is, or where it is stored."""
    sink = now.pipeline.sink
    for field, names in (("key", sink.key), ("partition_by", sink.partition_by)):
        for name in names:
            if name not in kept:
                message = (
                    f"Column `{name}` of `sink.{field}` would get other values, so rows could be "
                    "others, or belong elsewhere."
                )
                raise InputError(message, RERUN, field=f"sink.{field}", column=name)
