"""Description of a transform for the state folder, from its result on an empty stream."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from sources.common.schema import parse_schema
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.inside.checkpoint.transform_shape import Shape, digest
from spark_jobs.inside.query.transform.given_rows import Given, names_of
from spark_jobs.inside.query.transform.user_transform import load_transform
from spark_jobs.inside.readers.empty_stream import empty_stream


def describe_transform(
    spark: SparkSession, context: PipelineContext, first_batch: int, reached: str
) -> Transform:
    """Describe the pipeline's transform for the state folder: code digest, plan, operators.

    The transform is applied to an empty stream; nothing is written.

    Args:
        spark: The Spark session.
        context: The pipeline and its state.
        first_batch: Number of the first micro-batch that it computes.
        reached: How far the sources were read before that micro-batch, in words.
    """
    given = no_rows(spark, context)
    shape = Shape(load_transform(context.loaded)(given), names_of(given))
    return Transform(
        name=context.pipeline.transform.name,
        first_batch=first_batch,
        reached=reached,
        code=load_transform(context.loaded).digest(),
        plan=digest("\n".join(shape.lines)),
        operators=shape.operators,
        spark=spark.version,
    )


def on_no_rows(spark: SparkSession, context: PipelineContext) -> DataFrame:
    """Apply the pipeline's transform to an empty stream of its input columns; return the result.

    Whatever the user's code raises passes.
    """
    result: DataFrame = load_transform(context.loaded)(no_rows(spark, context))
    return result


def no_rows(spark: SparkSession, context: PipelineContext) -> Given:
    """Return empty streams with the input columns of the pipeline's transform.

    The transform is applied to them where only its columns and its plan matter.
    """
    empty = partial(empty_stream, spark, context.generation)
    if inputs := context.pipeline.inputs:
        plans = {name: context.of_source(each.sources[0].name) for name, each in inputs.items()}
        return {name: empty(own.plan.columns) for name, own in plans.items()}
    return empty(parse_schema(context.pipeline.current(context.plan.columns_by_name)))
