"""A repair in ranges of the key, and of keys that are listed: the same rows as of the whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.cdc.compared.key_range import KeyRange
from hybrid_extensions.repair.asked_keys import ASKED, read_asked
from hybrid_extensions.repair.compared_rows import (
    ENVELOPE,
    load_source,
    range_condition,
    read_deletes,
    read_positions,
    read_target,
)
from hybrid_extensions.repair.differences import Differences, find_differences, summed
from hybrid_extensions.repair.positions import repair_version
from sources.errors import InputError
from sources.storage.tables.delta import delta_table
from tests.hybrid_extensions.repair.repair_case import LOG_END, VERSION, RepairCase, at

OLD, NEW = at(90, 95), at(100, 250)


@pytest.fixture
def connection(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(tmp_path / "scratch.duckdb"))


def damaged(folder: Path) -> RepairCase:
    """A target of which some rows differ from those of :func:`database`, in every range."""
    case = RepairCase(folder)
    # Of 5 and 25 there are newer changes, and no row of the database lacks its key.
    case.write(
        *((key, "damaged" if key % 4 == 0 else "right", OLD, 7) for key in range(1, 30)),
        (None, "no key", OLD, 7),
        (99, "extra", OLD, 7),
    )
    case.delete(5, NEW)
    case.delete(40, NEW)
    return case


DATABASE = [(key, "right") for key in (*range(1, 30), 40, 41)]


def in_ranges(
    case: RepairCase, connection: duckdb.DuckDBPyConnection, folder: Path, bounds: list[int]
) -> Differences:
    """The differences, found range by range."""
    connection.execute("CREATE SCHEMA audit")
    connection.execute(
        f"CREATE TABLE {ENVELOPE} AS SELECT NULL AS _position, 300 AS _lsn, NULL AS _deleted"
    )
    opened = delta_table(case.table.target)
    read_deletes(connection, case.table)
    positions = read_positions(connection, case.table, opened)
    assert repair_version(connection, LOG_END, 200, positions) == VERSION
    ends = [None, *bounds, None]
    found = []
    for number, (first, until) in enumerate(pairwise(ends)):
        within = KeyRange(
            "id",
            "bigint",
            None if first is None else str(first),
            None if until is None else str(until),
        )
        rows = [
            (key, value)
            for key, value in DATABASE
            if (first is None or key >= first) and (until is None or key < until)
        ]
        file = folder / f"{number}.parquet"
        columns = {"id": pa.array([r[0] for r in rows]), "v": pa.array([r[1] for r in rows])}
        pq.write_table(pa.table(columns), file)
        condition = range_condition(within)
        load_source(connection, case.table, file)
        assert not file.exists()
        read_target(connection, case.table, opened, condition)
        found.append(find_differences(connection, case.table, VERSION, LOG_END, within=condition))
    return summed(found)


@pytest.mark.parametrize("bounds", [[], [10], [5, 6, 30, 41], [-3, 100]])
def test_ranges_find_and_write_what_the_whole_finds(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, bounds: list[int]
) -> None:
    case = damaged(tmp_path)
    with duckdb.connect() as other:
        whole = case.compare(other, DATABASE)
    found = in_ranges(case, connection, tmp_path, bounds)
    assert found._replace(keys=sorted(found.keys)) == whole._replace(keys=sorted(whole.keys))
    assert (found.missing, found.different, found.extra) == (1, 7, 2)
    case.repair(connection)
    with duckdb.connect() as again:
        assert case.compare(again, DATABASE).to_repair == 0


def test_positions_are_known_without_any_row_of_the_target(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = damaged(tmp_path)
    connection.execute("CREATE SCHEMA audit")
    read_deletes(connection, case.table)
    query = read_positions(connection, case.table, delta_table(case.table.target))
    assert connection.sql(f"SELECT DISTINCT p FROM ({query}) ORDER BY 1").fetchall() == [
        (OLD,),
        (NEW,),
    ]


def test_only_keys_that_are_listed_are_compared(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    found = damaged(tmp_path).compare(connection, DATABASE, keys="4, 41, 6, 99, 5")
    assert found.keys == ['different {"id":4}', 'extra {"id":99}', 'missing {"id":41}']


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_keys_may_be_in_a_file(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, kind: str
) -> None:
    file = tmp_path / f"wrong.{kind}"
    with duckdb.connect() as other:
        other.execute(
            f"COPY (SELECT 'x' AS more, unnest([4, 8, 4]) AS id) TO '{file}' (HEADER)"
            if kind == "csv"
            else f"COPY (SELECT 'x' AS more, unnest([4, 8, 4]) AS id) TO '{file}'"
        )
    found = damaged(tmp_path).compare(connection, DATABASE, keys=str(file))
    assert found.keys == ['different {"id":4}', 'different {"id":8}']
    assert connection.sql(f"SELECT typeof(id), count(*) FROM {ASKED} GROUP BY 1").fetchall() == [
        ("BIGINT", 2)
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "a key has 1 value, and none is listed"),
        ("[1, 2]", r'a key has 1 value, and one that is listed is \["1", "2"\]'),
        (
            "3, x",
            r"which have id: '3, x' is neither a file nor .*\(`\"x\"`\)\. Nothing was repaired",
        ),
        ('"x"', "Could not convert string 'x'"),
        ("1, " * 9000, "1,… is neither a file"),
        ("missing.csv", "'missing.csv' is neither a file nor a list in JSON"),
    ],
)
def test_what_lists_no_keys_is_refused(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, given: str, told: str
) -> None:
    connection.execute("CREATE SCHEMA audit")
    with pytest.raises(InputError, match=told):
        read_asked(connection, RepairCase(tmp_path).table, given)
