"""A captured table is compared in ranges: what differs counts, and what is on its way does not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.cdc.compared.kept_compare import KeptCompare, read_compare
from hybrid_extensions.compare import compare_range as looks
from hybrid_extensions.compare import compare_ranges as module
from hybrid_extensions.compare import live_run_state
from hybrid_extensions.compare.compare_range import LiveRun
from hybrid_extensions.compare.compare_ranges import compare_ranges
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.compare.compare_whole import FurtherLooks, keep_compared
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.planning.context import PipelineContext
from tests.command_line import invoke
from tests.extensions import skip_without

pytestmark = pytest.mark.slow
Execute = Callable[..., None]
INCLUDE = {"_position": "position", "_committed_at": "committed_at", "_deleted": "deleted"}
ROWS = 5_000


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def database(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, str], str, Execute]]:
    """How a table of 5,000 rows is reached, its name, and a function that executes SQL."""
    skip_without("postgres" if request.param == "postgres" else "mariadb")
    name = f"t_{uuid.uuid4().hex[:8]}"
    if request.param == "postgres":
        server: LocalPostgres = request.getfixturevalue("postgres")
        monkeypatch.setenv("PGPASSWORD", server.password)

        def execute(*statements: str) -> None:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement)

        made = ({"dsn": server.dsn, "slot": "none"}, f"public.{name}", execute)
    else:
        other: MySqlServer = request.getfixturevalue(request.param)
        monkeypatch.setenv("MYSQL_PWD", other.password)
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


def pipeline(
    folder: Path,
    database: dict[str, str],
    table: str,
    key: Sequence[str] = ("id",),
    **compare: Any,
) -> LoadedPipeline:
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
            "key": [*key],
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
    monkeypatch.setattr(looks, "PAUSES_S", (0.0, 0.0))
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


def keyed(
    folder: Path, database: dict[str, str], table: str, key: Sequence[str], rows: pa.Table
) -> LoadedPipeline:
    """Return a pipeline with another key, whose target has these rows."""
    folder.mkdir()
    write_deltalake(str(folder / "out"), rows)
    loaded = pipeline(folder, database, table, key, rows_per_second=1_000_000)
    loaded.open_generation(create=True)
    return loaded


def go_on(loaded: LoadedPipeline, reason: str | None = None) -> KeptCompare:
    return compare_ranges(loaded, loaded.require_generation(), lambda: LiveRun(reason))


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
    options, table, execute = database
    name = table.partition(".")[2]
    execute(f"UPDATE {name} SET v = 1 WHERE id IN (7, 8)", f"DELETE FROM {name} WHERE id = 9")
    looks: list[float] = []

    def arrive(pause_s: float) -> None:
        """Between two looks one change arrives, and one row changes again."""
        looks.append(pause_s)
        if len(looks) == 1:
            DeltaTable(str(tmp_path / "out")).delete("id = 9")
        execute(f"UPDATE {name} SET v = v + 7 WHERE id = 8")

    slow = pipeline(tmp_path, options, table, rows_per_second=1)
    kept = compare_ranges(slow, mirror.require_generation(), LiveRun, wait=arrive)
    assert kept.examples == ['{"id":7} differs in v']
    assert looks[:2] == [0.0, 0.0]
    # Three looks at 999 rows, at one row per second: each of them counts.
    assert looks[2] > 2_000


def test_a_look_at_the_whole_table_is_kept_once_it_is_judged(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    _, table, execute = database
    generation = mirror.require_generation()
    go_on(mirror)
    name = table.partition(".")[2]
    execute(f"DELETE FROM {name} WHERE id IN (4, 5)")

    def compare(why_not: str | None) -> tuple[FurtherLooks | None, KeptCompare | None]:
        begun_ms = now_ms()
        found = compare_with_source(mirror)
        context = PipelineContext(mirror, generation)

        def arrive(_: float) -> None:
            DeltaTable(str(tmp_path / "out")).delete("id = 5")

        said = keep_compared(context, found, begun_ms, lambda: LiveRun(why_not), wait=arrive)
        return said, read_compare(generation)

    # Nobody can say which of these rows are on their way: the answer stays as it was.
    said, kept = compare("the live run is paused")
    assert kept is not None
    assert said is not None
    assert (said.differing, "only delayed: the live run is paused" in said.text) == (None, True)
    assert (kept.differing, len(kept.ranges)) == (0, 5)

    said, kept = compare(None)
    assert kept is not None
    assert said is not None
    assert said[:2] == ("1 key differs after further looks.", 1)
    assert said.examples == ['{"id":4} is only in the target']
    assert kept.text.endswith('Of 4,998 rows 1 key differs: {"id":4} is only in the target.')
    assert len(kept.ranges) == 1
    # The next pass covers it.
    DeltaTable(str(tmp_path / "out")).delete("id = 4")
    assert go_on(mirror).differing == 0

    execute(f"INSERT INTO {name} VALUES (4, 1, 'w4')")
    assert go_on(mirror).differing == 1
    execute(f"DELETE FROM {name} WHERE id = 4")
    said, kept = compare(None)
    assert said is None
    assert kept is not None
    assert kept.differing == 0


def test_the_exit_status_of_the_command_is_that_of_its_last_look(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, table, execute = database
    execute(f"DELETE FROM {table.partition('.')[2]} WHERE id IN (4, 5)")

    def command(arriving: int) -> tuple[int, dict[str, Any]]:
        def look(_: LoadedPipeline) -> LiveRun:
            DeltaTable(mirror.target.url).delete(f"id = {arriving}")
            return LiveRun()

        monkeypatch.setattr(live_run_state, "look_at_run", look)
        done = invoke(["compare", str(mirror.path), "--json"])
        return done.exit_code, json.loads(done.stdout)

    # By the last look one of two rows has arrived, then the other one.
    status, document = command(5)
    assert (status, document["ok"], document["only_in_target"]) == (1, False, 2)
    status, document = command(4)
    assert (status, document["ok"], document["only_in_target"]) == (0, True, 1)


def test_a_table_that_is_no_longer_compared_by_schedule_is_refused(mirror: LoadedPipeline) -> None:
    document = yaml.safe_load(mirror.path.read_text())
    del document["compare"]
    mirror.path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match="declares no `compare`"):
        go_on(load_pipeline(mirror.path))


def test_the_command_does_not_turn_the_status_red_by_rows_that_nobody_can_judge(
    mirror: LoadedPipeline, database: tuple[dict[str, str], str, Execute]
) -> None:
    _, table, execute = database
    execute(f"DELETE FROM {table.partition('.')[2]} WHERE id = 4")

    def command() -> tuple[int, str]:
        done = invoke(["compare", str(mirror.path)])
        return done.exit_code, " ".join(done.output.split())

    status, text = command()
    assert (status, "only delayed: the live run was not requested" in text) == (1, True), text
    assert read_compare(mirror.require_generation()) is None
    DeltaTable(mirror.target.url).delete("id = 4")
    assert command()[0] == 0
    kept = read_compare(mirror.require_generation())
    assert kept is not None
    assert kept.text.endswith("Of 4,999 rows all are equal.")


def test_rows_that_wait_for_the_next_micro_batch_are_not_judged_before_it(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, table, execute = database
    name = table.partition(".")[2]
    generation = mirror.require_generation()
    waits: list[float] = []
    # What the looks at the run answer: the micro-batch under way is not the one with the change.
    busy = LiveRun(batch_id=7, has_all=False, pace_s=300)
    runs = iter([busy, busy, busy, busy._replace(batch_id=8), busy._replace(batch_id=9)])

    def arrive(pause_s: float) -> None:
        waits.append(pause_s)
        if waits.count(300) == 3:
            DeltaTable(str(tmp_path / "out")).delete("id = 9")

    execute(f"DELETE FROM {name} WHERE id = 9", f"UPDATE {name} SET v = 1 WHERE id = 7")
    monkeypatch.setattr(module, "RANGE_ROWS", 10_000)
    kept = compare_ranges(mirror, generation, lambda: next(runs), wait=arrive)
    assert (kept.examples, waits) == (['{"id":7} differs in v'], [0, 300, 300, 300])

    # Input that waits for longer than the looks take may be what is missing.
    late = LiveRun(waiting_s=1e9)
    kept = compare_ranges(mirror, generation, lambda: late, wait=lambda _: None)
    assert "has not committed what waited" in str(kept.postponed)
    assert kept.examples == ['{"id":7} differs in v']
    runs = iter([busy, busy, LiveRun("the live run is starting")])
    kept = compare_ranges(mirror, generation, lambda: next(runs), wait=lambda _: None)
    assert kept.postponed == "the live run is starting"


def test_no_number_of_rows_on_their_way_hides_one_that_differs(
    mirror: LoadedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANGE_ROWS", 10_000)
    target, rows = str(tmp_path / "out"), DeltaTable(str(tmp_path / "out")).to_pyarrow_table()
    more = {
        "id": pa.array(range(10_000, 22_000), pa.int32()),
        "v": pa.array([Decimal(0)] * 12_000, pa.decimal128(9, 2)),
        "w": [""] * 12_000,
    }
    write_deltalake(target, pa.concat_tables([rows, pa.table(more)]), mode="overwrite")
    DeltaTable(target).delete("id = 4999")

    def arrive(_: float) -> None:
        DeltaTable(target).delete("id > 20000")

    # 12,001 keys differ at first, and the text of 4999 sorts behind all others.
    generation = mirror.require_generation()
    kept = compare_ranges(mirror, generation, LiveRun, wait=arrive)
    assert kept.differing == 10_002
    arrive(0)
    DeltaTable(target).delete("id >= 10000")
    assert go_on(mirror).examples == ['{"id":4999} is only in the database']


def test_many_rows_with_the_same_first_part_of_a_key_are_one_range(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    options, table, execute = database
    name = table.partition(".")[2]
    # 3,000 rows of one tenant, and ranges of 1,000.
    execute(
        f"DROP TABLE {name}",
        f"CREATE TABLE {name} (id int, v decimal(9,2), w varchar(20), PRIMARY KEY (id, w))",
        f"INSERT INTO {name} VALUES "
        + ", ".join(f"({each if each < 1000 else 1000}, 1, 'w{each}')" for each in range(4_000)),
        f"INSERT INTO {name} VALUES (2000, 1, 'w')",
    )
    rows = {
        "id": pa.array([min(each, 1_000) for each in range(4_000)] + [2_000], pa.int32()),
        "v": pa.array([Decimal(1)] * 4_001, pa.decimal128(9, 2)),
        "w": [f"w{each}" for each in range(4_000)] + ["w"],
    }
    loaded = keyed(tmp_path / "keyed", options, table, ["id", "w"], pa.table(rows))
    execute(f"UPDATE {name} SET v = 2 WHERE w = 'w3999'", f"DELETE FROM {name} WHERE w = 'w'")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        assert len(said) <= 3, said

    kept = compare_ranges(loaded, loaded.require_generation(), LiveRun, say)
    assert [(each.first, each.rows) for each in kept.ranges] == [(None, 1_000), ("1000", 3_000)]
    assert kept.examples == [
        '{"id":1000,"w":"w3999"} differs in v',
        '{"id":2000,"w":"w"} is only in the target',
    ]


def test_rows_are_compared_though_the_transform_gives_the_key_another_name(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    options, table, execute = database
    target = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().rename_columns(["k", "v", "w"])
    loaded = keyed(tmp_path / "keyed", options, table, ["k"], target)
    assert go_on(loaded).text.endswith("Of 5,000 rows all are equal.")
    execute(f"UPDATE {table.partition('.')[2]} SET w = 'secret' WHERE id = 7")
    kept = go_on(loaded)
    assert kept.examples == ["a row is only in the database", "a row is only in the target"]
    assert kept.differing == 2


def test_two_comparisons_at_the_same_time_do_not_undo_each_other(
    mirror: LoadedPipeline,
    database: tuple[dict[str, str], str, Execute],
    tmp_path: Path,
) -> None:
    options, table, execute = database
    generation = mirror.require_generation()
    slow = pipeline(tmp_path, options, table, within="0 s")
    execute(f"UPDATE {table.partition('.')[2]} SET v = 1 WHERE id = 10")
    context = PipelineContext(mirror, generation)

    def meanwhile(_: float) -> None:
        begun_ms = now_ms()
        found = compare_with_source(mirror)
        keep_compared(context, found, begun_ms, LiveRun, wait=lambda _: None)

    # What is begun anew by somebody else is not taken back to where this one was.
    kept = compare_ranges(slow, generation, LiveRun, wait=meanwhile)
    assert (kept.at, kept.differing, len(kept.ranges)) == (None, 1, 1)
    assert kept == read_compare(generation)
    # What a range has found after the whole table was read stays.
    begun_ms = now_ms()
    found = compare_with_source(mirror)
    execute(f"UPDATE {table.partition('.')[2]} SET v = 2.5 WHERE id = 10")
    equal = compare_with_source(mirror)
    assert (found.ok, equal.ok) == (False, True)
    execute(f"UPDATE {table.partition('.')[2]} SET v = 1 WHERE id = 10")
    go_on(slow)
    keep_compared(context, equal, begun_ms, LiveRun)
    kept_later = read_compare(generation)
    assert kept_later is not None
    assert kept_later.examples == ['{"id":10} differs in v']
