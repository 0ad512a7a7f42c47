"""A contender's table counts only if it is what the input makes it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.flink.inputs import LAST_USER, PARTITIONS, Inputs, write_files
from benchmarks.flink.results import WrongResultError, require_right

ROWS = 6_400
_ROWS = """
FROM read_json('{}', columns = {{
    id: 'BIGINT', "at": 'TIMESTAMPTZ', "user": 'VARCHAR', value: 'DOUBLE'
}})
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    found = Inputs(tmp_path_factory.mktemp("inputs"), ROWS, "none:9092")
    write_files(found)
    return found


def table(folder: Path, query: str) -> list[str]:
    """Return the Parquet file of a table with the rows of a query."""
    path = folder / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return [str(path)]


def history(inputs: Inputs) -> str:
    return _ROWS.format(f"{inputs.history}/*.json")


def records(inputs: Inputs) -> str:
    return _ROWS.format(inputs.records)


def test_the_topic_continues_the_files(inputs: Inputs) -> None:
    with duckdb.connect() as connection:
        lines = connection.execute(f"SELECT count(*), min(id) FROM ({records(inputs)})").fetchone()
        ends = connection.execute(f'SELECT max(epoch_ms("at")) FROM ({history(inputs)})').fetchone()
        last = connection.execute(
            f"SELECT count(*) FROM ({records(inputs)}) WHERE \"user\" = '{LAST_USER}'"
        ).fetchone()
    assert lines == (inputs.records_count, ROWS - inputs.overlap)
    assert ends == (inputs.history_end_ms,)
    assert last == (PARTITIONS,)
    assert inputs.overlap > 0


@pytest.mark.parametrize("work", ["files", "topic", "windows", "chain"])
def test_only_the_right_table_is_right(inputs: Inputs, work: str, tmp_path: Path) -> None:
    right = {
        "files": history(inputs),
        "topic": records(inputs),
        "windows": f"""
            SELECT date_trunc('hour', "at") AS hour, "user", count(*) AS n, sum(value) AS total
            FROM ({records(inputs)}) GROUP BY ALL""",
        "chain": f"({history(inputs)}) UNION ({records(inputs)})",
    }[work]
    require_right(inputs, work, table(tmp_path, right), "one")
    counted = f"SELECT * FROM ({right}) WHERE \"user\" <> '{LAST_USER}'"
    wrong = {
        "a row is missing": f"{counted} OFFSET 1",
        "one is there twice": f"({right}) UNION ALL ({counted} LIMIT 1)",
        "users are others": f'SELECT * REPLACE (concat("user", \'x\') AS "user") FROM ({right})',
    }
    for query in wrong.values():
        with pytest.raises(WrongResultError, match=f"one, {work}: the table has"):
            require_right(inputs, work, table(tmp_path, query), "one")


def test_the_last_windows_do_not_count(inputs: Inputs, tmp_path: Path) -> None:
    query = f"""
        SELECT date_trunc('hour', "at") AS hour, "user", count(*) AS n, sum(value) AS total
        FROM ({records(inputs)}) WHERE "user" <> '{LAST_USER}' GROUP BY ALL"""
    require_right(inputs, "windows", table(tmp_path, query), "one")


def test_a_table_without_files_is_not_right(inputs: Inputs) -> None:
    with pytest.raises(WrongResultError, match="one, topic: the table has no files"):
        require_right(inputs, "topic", [], "one")
