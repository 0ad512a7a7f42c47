"""Before a promotion: whether the audit's query fits the candidate's columns, tried on no rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from hybrid_extensions.audit.computed.expected_query import expected_query
from hybrid_extensions.audit.expected_and_target import check_columns, create_expected
from hybrid_extensions.audit.input_tables import input_tables
from hybrid_extensions.comparison.compared_tables import create_target_rows, open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from sources.common.sql.sql_names import quoted
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.plan import Plan, find_plan
from sources.serving import target_of
from sources.state.generation import read_generation


def query_misfit(loaded: LoadedPipeline, generation: str) -> str | None:
    """Return why the audit would refuse its query, and what to do; None if it would not.

    Asked before a promotion. The query is run over an input that has the planned columns and no
    row, so that an error of particular values is not found.

    Args:
        loaded: The pipeline, by the file whose audit is tried.
        generation: Name of the generation, whose table is there.

    Returns:
        None if the query fits, if the audit needs or has none, or if it can't be tried.

    Raises:
        InputError: The table can't be read.
        StateError: The state is damaged.
        UnavailableError: The store does not answer.
    """
    plan = find_plan(read_generation(loaded.state, generation))
    target = open_target(target_of(loaded, generation))
    try:
        query = expected_query(loaded)
    except InputError:
        # There is none, whatever the generation is.
        return None
    if plan is None or target is None or query is None:
        return None
    sink = loaded.pipeline.sink
    with (
        TemporaryDirectory(prefix="hybrid-audit-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        names = [field.name for field in target.schema().fields if field.name != sink.unchanged]
        create_target_rows(connection, "found", target, names, most=0)
        try:
            _create_empty_inputs(connection, loaded, plan)
            create_expected(connection, query)
            check_columns(connection, sink.row_key, query)
        except InputError as error:
            return f"{error.message} {error.hint}"
        except duckdb.Error:
            # The input can't be made of the plan alone, such as for a name or a type.
            return None
    return None


def _create_empty_inputs(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, plan: Plan
) -> None:
    """Create the tables that the query may read, with the planned columns and without rows."""
    pipeline = loaded.pipeline
    for table, own in input_tables(pipeline).items():
        names = [source.name for source in own.sources]
        part = plan.of_sources(names) if pipeline.inputs else plan
        connection.register("_planned", part.columns.empty_table())
        connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM _planned")
        connection.unregister("_planned")
        rows = f"SELECT *, 0 AS _place FROM {quoted(table)}"
        connection.execute(f"CREATE OR REPLACE TABLE audit.rows AS {rows}")
        for name in names:
            connection.execute(f"CREATE VIEW {quoted(name)} AS SELECT * FROM {quoted(table)}")
