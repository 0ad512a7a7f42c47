"""A transform applied to empty streams, and its description for the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession

from sources.common.schema import parse_schema
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.inside.checkpoint.transform_shape import Shape, digest
from spark_jobs.inside.query.transform.given_rows import Given, names_of
from spark_jobs.inside.query.transform.passed_columns import columns_passed_on
from spark_jobs.inside.query.transform.user_transform import UserTransform, load_transform
from spark_jobs.inside.readers.empty_stream import empty_stream


@dataclass(frozen=True)
class TransformOnNoRows:
    """A transform applied to empty streams, for where only its columns and its plan matter.

    Attributes:
        transform: The transform.
        given: Empty streams with its input columns.
        rows: What it made of them.
    """

    transform: UserTransform
    given: Given
    rows: DataFrame

    @cached_property
    def passed(self) -> list[str] | None:
        """Columns that the transform passes on, if it does nothing else; None otherwise."""
        return columns_passed_on(self.rows, self.given)

    def described(self, context: PipelineContext, first_batch: int, reached: str) -> Transform:
        """Describe the transform for the state folder: code digest, plan, operators.

        Args:
            context: The pipeline and its state.
            first_batch: Number of the first micro-batch that it computes.
            reached: How far the sources were read before that micro-batch, in words.
        """
        shape = Shape(self.rows, names_of(self.given))
        return Transform(
            name=context.pipeline.transform.name,
            first_batch=first_batch,
            reached=reached,
            code=self.transform.digest(),
            plan=digest("\n".join(shape.lines)),
            operators=shape.operators,
            spark=self.rows.sparkSession.version,
        )


def apply_to_no_rows(spark: SparkSession, context: PipelineContext) -> TransformOnNoRows:
    """Apply the pipeline's transform to empty streams with its input columns.

    Nothing is written. Errors of the user's code are raised unchanged.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.

    Raises:
        InputError: The transform's function can't be imported or is not callable, or its query file
            can't be read.
    """
    transform, given = load_transform(context.loaded), _no_rows(spark, context)
    return TransformOnNoRows(transform, given, transform(given))


def _no_rows(spark: SparkSession, context: PipelineContext) -> Given:
    empty = partial(empty_stream, spark, context.generation)
    if inputs := context.pipeline.inputs:
        plans = {name: context.of_source(each.sources[0].name) for name, each in inputs.items()}
        return {name: empty(own.plan.columns) for name, own in plans.items()}
    return empty(parse_schema(context.pipeline.current(context.plan.columns_by_name)))
