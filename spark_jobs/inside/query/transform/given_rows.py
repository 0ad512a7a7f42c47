"""What a transform is called with; refused if it reads an input twice, never or out of order.

Spark's checkpoint knows sources by their order in the analyzed plan, which with several inputs is
the transform's: swapped sides of a join would swap what was read of them. So the order is held to
that of the declaration, which a generation keeps.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from sources.errors import InputError
from spark_jobs.inside.checkpoint.plan_nodes import (
    analyzed_plan,
    each_of,
    kind_of,
    nodes_of,
    number_of,
)

Given = DataFrame | dict[str, DataFrame]
"""One DataFrame; or one for each of several inputs, by name, in the order of the declaration."""


def frames_of(given: Given) -> list[DataFrame]:
    """Return the DataFrames that a transform is called with, in the order of their inputs."""
    return [given] if isinstance(given, DataFrame) else list(given.values())


def names_of(given: Given) -> dict[int, str]:
    """Return names for the columns of several inputs, such as ``orders.id``, by expression id.

    Empty for one DataFrame, whose columns have different names.
    """
    if isinstance(given, DataFrame):
        return {}
    return {
        number_of(column): f"{name}.{column.name()}"
        for name, frame in given.items()
        for column in each_of(analyzed_plan(frame).output())
    }


def require_declared_order(name: str, rows: DataFrame, given: Given) -> None:
    """Refuse a transform that does not read each input once, in the order of their declaration.

    Nothing is checked for a transform with one DataFrame. By Spark's analyzed plan; no query runs.

    Args:
        name: The transform: ``module:function``, or the file of a query.
        rows: What it returned.
        given: What it was called with.

    Raises:
        InputError: It leaves out an input, reads one twice, or reads them in another order; names
            the inputs.
    """
    if isinstance(given, DataFrame):
        return
    owners = {
        column: (input_name, number)
        for input_name, frame in given.items()
        for number, column in enumerate(_streams(analyzed_plan(frame)))
    }
    declared = list(owners.values())
    # As Spark numbers sources: those of a WITH clause come first there.
    as_written = [owners.get(column) for column in _streams(rows._jdf.queryExecution().analyzed())]
    found = [owners.get(column) for column in _streams(analyzed_plan(rows))]
    if found == declared and as_written == declared:
        return
    order = list(dict.fromkeys(each[0] for each in found if each is not None))
    lacking = [each for each in given if each not in order]
    listed = ", ".join(f"`{each}`" for each in given)
    if lacking:
        message = f"`transform: {name}` does not read the input `{lacking[0]}`."
        hint = (
            f"Use all inputs in the transform, {listed}, or remove `{lacking[0]}` from `inputs`. "
            "Nothing was read or written."
        )
    elif order != list(given) and len(found) == len(declared):
        shown = ", ".join(f"`{each}`" for each in order)
        message = (
            f"`transform: {name}` reads its inputs in the order {shown}, and they are declared in "
            f"the order {listed}. Spark's checkpoint knows them by this order."
        )
        hint = (
            "Before anything is read, declare the inputs in the order in which the transform reads "
            "them: the left side of a join first. Afterwards, put the sides of the join back as "
            "they were, or begin a new generation: `hybrid generation new P`. Nothing was read or "
            "written."
        )
    else:
        what = f"inputs from a WITH clause in another order than they are declared in, {listed}"
        what = "an input more than once" if len(found) > len(declared) else what
        message = f"`transform: {name}` reads {what}."
        hint = (
            "Read each input once, in the order of the declaration, such as in one join; what is "
            "needed twice may be computed once before. Nothing was read or written."
        )
    raise InputError(message, hint, field="transform", value=name)


def _streams(plan: Any) -> list[int]:
    """Return the first column's number of each stream in a plan, in Spark's order of sources."""
    return [
        number_of(next(each_of(node.output())))
        for node in nodes_of(plan)
        # A reference to a WITH clause stands for streams that are met where the clause is.
        if node.isStreaming() and not node.children().size() and kind_of(node) != "CTERelationRef"
    ]
