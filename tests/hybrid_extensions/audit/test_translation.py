"""The transform's own query as the audit's: what DuckDB makes of it, and where it can't."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.audit.computed.translation import translate_query
from sources.errors import InputError
from tests.hybrid_extensions.audit.audit_case import SCHEMA, Case, row, wrong

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
ROWS = [row(number, at=BEGIN + timedelta(minutes=37 * number)) for number in range(60)]


def result(text: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Columns and rows that DuckDB computes by a translated query."""
    made = translate_query(text)
    assert made.reason is None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("input", pa.Table.from_pylist(ROWS, SCHEMA))
        cursor = connection.execute(made.sql)
        return [each[0] for each in cursor.description], cursor.fetchall()


def by_window(length: int, slide: int) -> Counter[tuple[datetime, datetime]]:
    """Rows by start and end of the windows that they fall into, counted without SQL."""
    counts: Counter[tuple[datetime, datetime]] = Counter()
    first = BEGIN - timedelta(days=1)
    starts = [first + timedelta(hours=slide * n) for n in range(200)]
    for each in ROWS:
        for start in starts:
            if start <= each["at"] < start + timedelta(hours=length):
                counts[start, start + timedelta(hours=length)] += 1
    return counts


@pytest.mark.parametrize(
    ("function", "per_second"),
    [("timestamp_seconds", 1), ("timestamp_millis", 1000), ("timestamp_micros", 1_000_000)],
)
def test_an_instant_of_a_number_of_32_bits_is_that_of_spark(function: str, per_second: int) -> None:
    _, rows = result(f"SELECT {function}(seats * 1000000) AS at FROM input WHERE id = 59")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert rows == [(epoch + timedelta(seconds=159_000_000 / per_second),)]


@pytest.mark.parametrize(
    ("query", "length", "slide"),
    [
        ("SELECT window.start, window.end, count(*) AS n FROM input GROUP BY window(at, '3 hours')",
         3, 3),
        ("SELECT window(at, '3 hours').start, window.end, count(*) AS n\n"
         "FROM input GROUP BY window(at, '3 hours')", 3, 3),
        ("SELECT window.start, window.end, count(*) AS n FROM input AS i\n"
         "GROUP BY window(i.at, '3 hours', 'interval 1 hour')", 3, 1),
        ("WITH c AS (SELECT window, count(*) AS n FROM input GROUP BY window(at, '6 hours', "
         "'4 hours')) SELECT window.start, window.end, n FROM c", 6, 4),
        ("SELECT w.start, w.end, count(*) AS n\n"
         "FROM (SELECT window(at, '2 hours') AS w FROM input) GROUP BY w", 2, 2),
    ],
)  # fmt: skip
def test_windows_are_those_of_spark(query: str, length: int, slide: int) -> None:
    columns, rows = result(query)
    assert columns == ["start", "end", "n"]
    assert Counter({(start, end): n for start, end, n in rows}) == by_window(length, slide)


def test_a_row_without_a_time_is_in_no_window_as_in_spark() -> None:
    time = "nullif(at, TIMESTAMP '2013-01-01 00:00:00')"
    _, rows = result(
        "SELECT window.start, count(*) AS n FROM input WHERE id = 0 OR id = 1 "
        f"GROUP BY window({time}, '1 hour')"
    )
    assert rows == [(BEGIN, 1)]


def test_columns_get_the_names_that_spark_gives_them() -> None:
    columns, _ = result("SELECT window, count(*) AS n FROM input GROUP BY window(at, '1 day')")
    assert columns == ["window", "n"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT window.start FROM input GROUP BY window(at, '3 h', '3 h', '1 h')", "shifted"),
        ("SELECT a.id FROM input a JOIN input b USING (id) GROUP BY window(at, '3 h', '1 h')",
         "overlap, over something else than one table"),
        ("SELECT window(at, '1 h'), window(at, '2 h') FROM input", "several kinds of windows"),
        ("SELECT 1; SELECT 2", "as one query"),
        ("SELECT (", "sqlglot does not translate it"),
    ],
)  # fmt: skip
def test_what_has_no_translation_says_why(query: str, told: str) -> None:
    assert told in str(translate_query(query).reason)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """History and late rows overlap."""
    case = Case(tmp_path)
    case.history(ROWS[:40])
    case.late(ROWS[30:])
    return case


SCALED = "SELECT * EXCEPT (delay), delay * 2 AS delay FROM input WHERE id % 2 = 0"


def test_a_table_is_proved_by_the_query_of_its_transform(case: Case) -> None:
    (case.folder / "f.sql").write_text(SCALED)
    even = [{**each, "delay": each["delay"] * 2} for each in ROWS if each["id"] % 2 == 0]
    case.target(even)
    report = case.audit(transform={"sql": "f.sql"})
    assert report.ok
    assert (report.expected, wrong(report)) == (30, {})
    assert report.notes == [
        "DuckDB computed the expected rows by the transform's own query, f.sql."
    ]
    case.target_again([*even[:5], {**even[5], "delay": 1.0}, *even[7:]])
    assert wrong(case.audit(transform={"sql": "f.sql"})) == {"missing": 1, "different": 1}


def test_a_change_that_the_query_leaves_out_changes_nothing(case: Case) -> None:
    (case.folder / "f.sql").write_text("SELECT * FROM input WHERE seats < 1000")
    case.late([row(1, seats=5, delay=7.0), row(2, seats=2000, delay=8.0)])
    case.history([row(1, delay=1.0), row(2, delay=1.0)])
    sink = {"path": "table", "mode": "merge", "key": ["id", "origin"], "sequence": "delay"}
    case.target([row(1, seats=5, delay=7.0), row(2, delay=1.0)])
    assert case.audit(transform={"sql": "f.sql"}, sink=sink).ok


MERGE = {"path": "table", "mode": "merge", "key": ["origin"]}


@pytest.mark.parametrize(
    ("query", "sink", "told"),
    [
        ("SELECT origin, count(*) AS n FROM input GROUP BY origin", {"mode": "append"},
         "groups that are not final"),
        ("SELECT origin, max(delay) AS delay FROM input GROUP BY origin", {"sequence": "delay"},
         "the sink then keeps the last change"),
        ("SELECT origin, bround(max(delay)) AS n FROM input GROUP BY origin", {},
         "`transform.sql: f.sql`, run by DuckDB, fails: Catalog Error"),
        ("SELECT origin, 'x' AS n FROM input GROUP BY origin", {}, "Column `n` is VARCHAR in"),
        ("SELECT origin FROM input GROUP BY origin", {}, "only in the target: n"),
    ],
)  # fmt: skip
def test_what_duckdb_can_not_compute_asks_for_a_query_of_its_own(
    case: Case, query: str, sink: dict[str, str], told: str
) -> None:
    (case.folder / "f.sql").write_text(query)
    case.target([{"origin": "JFK", "n": 60}], pa.schema([("origin", "string"), ("n", "int64")]))
    with pytest.raises(InputError) as caught:
        case.audit(transform={"sql": "f.sql"}, sink={**MERGE, **sink})
    assert told in caught.value.message
    assert caught.value.hint.startswith("Declare `audit: {sql: FILE}`")
    own = case.sql("SELECT origin, count(*) AS n FROM input GROUP BY origin")
    assert case.audit(transform={"sql": "f.sql"}, sink=MERGE, audit=own).ok


HOURS = "SELECT * EXCEPT (seats), CAST(CAST(seats AS double) / 2 AS int) AS seats FROM input"


def test_a_difference_by_a_query_that_is_not_proven_is_no_alarm(case: Case) -> None:
    (case.folder / "f.sql").write_text(HOURS)
    halves = [{**each, "seats": round(each["seats"] / 2)} for each in ROWS]
    case.target(halves)
    # Rows that DuckDB computes as Spark did are right.
    assert case.audit(transform={"sql": "f.sql"}).ok
    case.target_again([{**each, "seats": each["seats"] // 2} for each in ROWS])
    report = case.audit(transform={"sql": "f.sql"})
    assert (report.outcome, wrong(report), report.examples["ambiguous"]) == ("unknown", {}, [])
    (told,) = report.unchecked
    assert "makes other rows than the target has (15 different), but `CAST(" in told
    assert told.endswith("with a DuckDB query that computes the target from `input`.")


def test_an_average_of_decimals_has_other_digits_in_spark_and_is_no_alarm(case: Case) -> None:
    query = "SELECT origin, avg(amount) AS a FROM input GROUP BY origin"
    (case.folder / "f.sql").write_text(query)
    amounts = pa.array([Decimal(1), Decimal(1), Decimal(0)], pa.decimal128(10, 2))
    history = pa.Table.from_pylist(ROWS[:3], SCHEMA).append_column("amount", amounts)
    pq.write_table(history, case.folder / "history" / "part-0.parquet")
    kinds = pa.schema([("origin", "string"), ("a", pa.decimal128(14, 6))])
    case.target([{"origin": "JFK", "a": Decimal("0.666667")}], kinds)
    files = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    report = case.audit(transform={"sql": "f.sql"}, sink=MERGE, sources=[files])
    assert (report.outcome, wrong(report)) == ("unknown", {})
    assert "`a`, DOUBLE here and DECIMAL(14,6) there," in report.unchecked[0]


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT id, count(DISTINCT origin) AS n FROM input WHERE id % 2 = 0 GROUP BY id", None),
        ("SELECT window.start, sum(delay) AS d FROM input GROUP BY window(at, '1 hour')", None),
        ("SELECT * FROM input WHERE at > TIMESTAMP '2024-01-01 00:00:00'", None),
        ("SELECT date_format(at, 'yyyy') AS y FROM input", "the function `date_format`"),
        ("SELECT id / 2 AS h FROM input", "`id / 2`"),
        ("SELECT CAST(id AS string) AS s FROM input", "`CAST(id AS STRING)`"),
        # 1.0E10 in Spark, 10000000000.0 in DuckDB.
        ("SELECT origin || delay AS s FROM input", "`origin || delay`"),
    ],
)
def test_parts_of_a_query_that_may_mean_something_else_are_named(
    query: str, part: str | None
) -> None:
    assert translate_query(query).unproven == part
