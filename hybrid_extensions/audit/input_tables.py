"""Tables of raw input that the audit's query reads: `input`, or one for each of several inputs."""

from __future__ import annotations

from sources.config.pipeline import Pipeline

INPUT = "input"
"""Name of the table of all sources of a pipeline with one chain of them."""


def input_tables(pipeline: Pipeline) -> dict[str, Pipeline]:
    """Return, by name of each table of raw input, the pipeline reduced to the sources in it.

    Without ``inputs`` that is one table, ``input``, with all sources. With several ``inputs`` each
    has a table of its own name, and its own sources and key.
    """
    return {name: pipeline.of_input(name) for name in pipeline.inputs} or {INPUT: pipeline}


def table_of(pipeline: Pipeline, source: str) -> tuple[str, Pipeline]:
    """Return the table that a source's rows are in, and the pipeline reduced to its sources.

    Args:
        pipeline: The pipeline.
        source: Name of the source.
    """
    name = pipeline.input_of(source)
    return (INPUT, pipeline) if name is None else (name, pipeline.of_input(name))
