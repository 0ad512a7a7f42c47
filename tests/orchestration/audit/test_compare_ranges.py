"""A captured table is compared in ranges: what differs counts, and what is on its way does not."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from orchestration.audit import compare_ranges as module
from orchestration.audit.compare_ranges import compare_ranges
from orchestration.compared_ranges import KeptCompare, keep_whole, read_compare
from services.mysql_server import MySqlServer
from services.postgres import LocalPostgres
from sources.config.loader import LoadedPipeline, load_pipeline

pytestmark = pytest.mark.slow
Execute = Callable[..., None]
INCLUDE = {"_position": "position", "_committed_at": "committed_at", "_deleted": "deleted"}
ROWS = 5_000


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, str], str, Execute]]:
    """How a table of 5,000 rows is reached, its name, and a function that executes SQL."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    if request.param == "postgres":
        server: LocalPostgres = request.getfixturevalue("postgres")
        os.environ["PGPASSWORD"] = server.password

        def execute(*statements: str) -> None:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement)

        made = ({"dsn": server.dsn, "slot": "none"}, f"public.{name}", execute)
    else:
        other: MySqlServer = request.getfixturevalue(request.param)
        os.environ["MYSQL_PWD"] = other.password
        other.execute(f"CREATE DATABASE {name}")

        def execute(*statements: str) -> None:
            with other.connect(name) as connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)

        made = ({"dsn": other.dsn(name)}, f"{name}.{name}", execute)
    execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v decimal(9,2), w varchar(20))")
    values = ", ".join(f"({each}, {each / 4}, 'w{each % 7}')" for each in range(ROWS))
    execute(f"INSERT INTO {name} VALUES {values}")
    yield made
    execute(f"DROP TABLE {name}")


def pipeline(folder: Path, database: dict[str, str], table: str, **compare: Any) -> LoadedPipeline:
    include = dict(INCLUDE)
    if "slot" in database:
        include |= {"_lsn": "lsn", "_transaction": "transaction"}
    document = {
        "name": "mirror",
        "event_time": "_committed_at",
        "sources": [
            {
                "name": "snapshot",
                "type": "files",
                "path": "snapshot/*.parquet",
                "format": "parquet",
                "snapshot": database,
            },
            {
                "name": "changes",
                "type": "kafka",
                "topic": "t",
                "bootstrap_servers": "localhost:1",
                "format": "debezium",
                "table": table,
                "schema": {"id": "int", "v": "decimal(9,2)", "w": "string"},
                "include": include,
            },
        ],
        "transform": "transforms:identity",
        "sink": {
            "path": "out",
            "mode": "merge",
            "key": ["id"],
            "sequence": "_position",
            "deleted": "_deleted",
        },
        "state": "state",
        "compare": {"cron": "0 2 * * *", **compare},
    }
    (folder / "p.yaml").write_text(yaml.safe_dump(document))
    return load_pipeline(folder / "p.yaml")


@pytest.fixture
def mirror(
    tmp_path: Path,
    database: tuple[dict[str, str], str, Execute],
    monkeypatch: pytest.MonkeyPatch,
) -> LoadedPipeline:
    """A pipeline whose target equals the table, and which compares 1,000 rows at a time."""
    monkeypatch.setattr(module, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(module, "RANGE_ROWS", 1_000)
    rows = {
        "id": pa.array(range(ROWS), pa.int32()),
        "v": pa.array([Decimal(each) / 4 for each in range(ROWS)], pa.decimal128(9, 2)),
        "w": [f"w{each % 7}" for each in range(ROWS)],
    }
    write_deltalake(str(tmp_path / "out"), pa.table(rows))
    options, table, _ = database
    loaded = pipeline(tmp_path, options, table, rows_per_second=1_000_000)
    loaded.open_generation(create=True)
    return loaded


def go_on(loaded: LoadedPipeline, reason: str | None = None) -> KeptCompare:
    return compare_ranges(loaded, loaded.require_generation(), lambda: reason)


def test_what_differs_is_named_until_its_range_is_equal_again(
    mirror: LoadedPipeline, database: tuple[dict[str, str], str, Execute], tmp_path: Path
) -> None:
    _, table, execute = database
    name = table.partition(".")[2]
    kept = go_on(mirror)
    assert (kept.differing, kept.at, kept.finished_ms is not None) == (0, None, True)
    assert [each.rows for each in kept.ranges] == [1_000] * 5

    execute(
        f"UPDATE {name} SET v = 1, w = 'secret' WHERE id = 2500",
        f"DELETE FROM {name} WHERE id = 4",
        f"INSERT INTO {name} VALUES (70000, 1, 'secret')",
    )
    kept = go_on(mirror)
    assert kept.differing == 3
    assert kept.examples == [
        '{"id":4} is only in the target',
        '{"id":2500} differs in v, w',
        '{"id":70000} is only in the database',
    ]
    assert "3 keys differ" in kept.text
    assert "secret" not in (tmp_path / "state/mirror/g1/compare.json").read_text()

    # It is mended, and a comparison of this range alone makes the check green again.
    execute(f"UPDATE {name} SET v = 625, w = 'w1' WHERE id = 2500")
    table_of = DeltaTable(str(tmp_path / "out"))
    table_of.delete("id = 4")
    kept = go_on(mirror)
    assert kept.examples == ['{"id":70000} is only in the database']
    execute(f"DELETE FROM {name} WHERE id = 70000")
    assert go_on(mirror).differing == 0


def test_a_comparison_goes_on_where_it_stopped(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    options, table, execute = database
    name = table.partition(".")[2]
    slow = pipeline(tmp_path, options, table, within="0 s")
    execute(f"UPDATE {name} SET v = 1 WHERE id = 10")
    seen = [go_on(slow) for _ in range(5)]
    assert [each.at for each in seen] == ["1000", "2000", "3000", "4000", None]
    assert [each.differing for each in seen] == [1] * 5
    assert seen[3].finished_ms is None
    # The next pass: what the first one found stays until it has passed the range.
    execute(f"UPDATE {name} SET v = 2.5 WHERE id = 10")
    assert go_on(slow).differing == 0


def test_a_run_that_is_behind_is_not_judged(mirror: LoadedPipeline) -> None:
    kept = go_on(mirror, "the live run is late")
    assert (kept.ranges, kept.postponed) == ([], "the live run is late")
    assert go_on(mirror).postponed is None


def test_rows_on_their_way_do_not_count(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    _, table, execute = database
    name = table.partition(".")[2]
    execute(f"UPDATE {name} SET v = 1 WHERE id IN (7, 8)", f"DELETE FROM {name} WHERE id = 9")
    looks: list[float] = []

    def arrive(pause_s: float) -> None:
        """Between two looks one change arrives, and one row changes again."""
        looks.append(pause_s)
        if len(looks) == 1:
            DeltaTable(str(tmp_path / "out")).delete("id = 9")
        execute(f"UPDATE {name} SET v = v + 7 WHERE id = 8")

    kept = compare_ranges(mirror, mirror.require_generation(), lambda: None, wait=arrive)
    assert kept.examples == ['{"id":7} differs in v']
    assert looks[:2] == [0.0, 0.0]


def test_a_whole_comparison_replaces_what_is_known_of_ranges(mirror: LoadedPipeline) -> None:
    generation = mirror.require_generation()
    go_on(mirror)
    keep_whole(generation, 5_000, 2)
    kept = read_compare(generation)
    assert kept is not None
    assert (kept.differing, len(kept.ranges)) == (2, 1)
    # The next pass covers it.
    assert go_on(mirror).differing == 0
