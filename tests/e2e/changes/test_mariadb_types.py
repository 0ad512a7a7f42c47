"""Each type is the same value whether a row comes by the snapshot or by a change."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.compare.compare_source import compare_table
from sources.common.conversion import converter, to_arrow_array
from sources.common.schema import parse_schema
from sources.kafka.client.kafka_log import KafkaLog
from sources.storage.folder import Folder
from tests.e2e.case import live_of
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import take_snapshot
from tests.services.processes import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# Type in the database, its literals, and the type to declare.
TYPES: list[tuple[str, list[str], str]] = [
    ("tinyint", ["-128", "127"], "tinyint"),
    ("tinyint unsigned", ["0", "255"], "smallint"),
    ("boolean", ["true", "false"], "boolean"),
    ("tinyint(1)", ["1", "0"], "int"),
    ("smallint unsigned", ["65535"], "int"),
    ("mediumint", ["-8388608"], "int"),
    ("int unsigned", ["4294967295"], "bigint"),
    ("int(5) unsigned zerofill", ["42"], "bigint"),
    ("bigint", ["-9223372036854775808", "9223372036854775807"], "bigint"),
    ("bigint unsigned", ["18446744073709551615", "0"], "decimal(20,0)"),
    ("decimal(12,2)", ["-9999999999.99", "0"], "decimal(12,2)"),
    ("decimal(38,10)", ["1e-10", "1234567890123456789012345678.5"], "decimal(38,10)"),
    ("float", ["16777216", "0.1", "-3.4e38"], "float"),
    ("float(7,2)", ["12345.67"], "float"),
    ("double", ["1e-300", "0.1", "-1.7976931348623157e308"], "double"),
    ("bit(1)", ["b'1'", "b'0'"], "boolean"),
    ("bit(12)", ["b'101000000001'"], "bigint"),
    ("bit(63)", ["b'1'"], "bigint"),
    ("year", ["2024", "1901", "0", "2155"], "int"),
    ("date", ["'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2024-00-15'"], "date"),
    ("date", ["'0001-01-01'", "'0069-02-28'", "'0099-12-31'"], "date"),
    ("datetime", ["'2024-02-29 12:34:56'", "'0000-00-00'", "'1000-01-01'"], "timestamp"),
    ("datetime(1)", ["'0001-01-01 00:00:00.1'", "'1969-12-31 23:59:59.9'"], "timestamp"),
    ("datetime(3)", ["'2024-02-29 12:34:56.789'"], "timestamp"),
    ("datetime(6)", ["'9999-12-31 23:59:59.999999'"], "timestamp"),
    ("timestamp null", ["'2024-02-29 12:34:56'", "'1970-01-02'"], "timestamp"),
    ("timestamp(6) null", ["'2024-07-29 12:34:56.789012'", "'2038-01-19 03:14:07.5'"], "timestamp"),
    ("time", ["'12:34:56'", "'-00:00:01'", "'838:59:59'"], "bigint"),
    ("time(6)", ["'-838:59:58.999999'", "'00:00:00.000001'"], "bigint"),
    ("time(3)", ["'100:00:00.5'"], "bigint"),
    ("enum('a','b c','é')", ["'é'", "'b c'"], "string"),
    ("set('x','y','z')", ["'z,x'", "''"], "string"),
    ("set('a b','é','it''s')", ["'it''s,é'", "'a b'"], "string"),
    ("json", ["'{\"a\": [1, null]}'"], "string"),
    ("char(5)", ["'ab '", "''", "'NULL'"], "string"),
    ("varchar(10)", ["'ab  '", "'NULL'"], "string"),
    ("varchar(10) character set latin1", ["'grün'", "'€'"], "string"),
    ("varchar(10) character set gbk", ["'中文'"], "string"),
    ("varchar(10) character set sjis", ["'日本'"], "string"),
    ("varchar(10) character set utf16", ["'a😀'"], "string"),
    ("varchar(10) character set cp1251", ["'Привет'"], "string"),
    ("varchar(10) collate utf8mb4_bin", ["'😀'"], "string"),
    ("longtext", ["'😀\\0\\n\\t\\\\N\"'", "repeat('x', 70000)"], "string"),
    ("binary(4)", ["x'0100'", "x'ff000000'"], "binary"),
    ("varbinary(4)", ["x'ff00'", "x''"], "binary"),
    ("blob", ["x'00ff0a'"], "binary"),
    ("geometry", ["ST_GeomFromText('LINESTRING(1 2, 3 4)', 4326)"], "binary"),
    ("point", ["point(1, -2.5)"], "binary"),
    ("polygon", ["ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))')"], "binary"),
    ("multipoint", ["ST_GeomFromText('MULTIPOINT(1 2,3 4)')"], "binary"),
    ("geometrycollection", ["ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')"], "binary"),
    ("int invisible", ["7"], "int"),
    ("int as (id + 1) virtual", [], "int"),
    ("int as (id + 2) stored", [], "int"),
]
# What MySQL alone has, or writes in another way than Debezium.
OF_MYSQL: list[tuple[str, list[str], str]] = [
    (
        "json",
        [
            """'{"b": 1, "aa": [1, 2.0, true], "": {}}'""",
            "'1e100'",
            "'[1E-7, 0.00001, 0.1, -0.0, 1e15, 9999999.0, 123456789.125, 1.7976931348623157e308]'",
        ],
        "string",
    ),
    (
        "json",
        [
            "'[18446744073709551615, -9223372036854775808, 18446744073709551616]'",
            """'"é \\\\n \\\\u0001 / 😀 \\\\"  1.0"'""",
            "json_array(cast('1.10' as decimal(5,2)), cast(repeat('123', 12) as decimal(40,2)))",
        ],
        "string",
    ),
    ("json", ["'null'", "'[]'", "'\"base64:type253:eHl6\"'"], "string"),
    ("point srid 4326", ["ST_GeomFromText('POINT(52.5 13.4)', 4326)"], "binary"),
    ("geometry srid 3857", ["ST_GeomFromText('POINT(1 2)', 3857)"], "binary"),
    ("varchar(10) character set gb18030", ["'中😀'"], "string"),
]


@pytest.mark.parametrize(("name", "more"), [("mariadb_case", []), ("mysql_case", OF_MYSQL)])
def test_a_value_is_the_same_by_snapshot_and_by_change_and_equals_the_database(
    request: pytest.FixtureRequest, name: str, more: list[tuple[str, list[str], str]]
) -> None:
    case: BinlogCase = request.getfixturevalue(name)
    types = TYPES + more
    columns = {"id": "bigint", **{f"c{number}": kind for number, (*_, kind) in enumerate(types)}}
    definitions = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(types))
    case.execute(f"CREATE TABLE types (id bigint PRIMARY KEY, {definitions})")
    case.capture(["types"])
    rows = max(len(literals) for _, literals, _ in types)
    inserts = ["SET sql_mode = '', time_zone = '+05:00'"]
    for row in range(rows):
        filled = [
            (f"c{number}", literals[row])
            for number, (_, literals, _) in enumerate(types)
            if row < len(literals)
        ]
        names, literals = zip(*filled, strict=True)
        inserts.append(
            f"INSERT INTO types (id, {', '.join(names)}) VALUES ({row}, {', '.join(literals)})"
        )
    inserts.append(f"INSERT INTO types (id) VALUES ({rows})")
    case.execute(*inserts)
    loaded = case.pipeline("types", columns)
    take_snapshot(loaded)
    snapshot = pq.read_table(case.folder / "snapshot" / "types").select(list(columns))

    source = live_of(loaded)
    log = KafkaLog(source)

    def has_all() -> bool:
        return sum(log.log_end().values()) >= rows + 1

    wait_for(has_all, "the changes", 60)
    reader = source.reader()
    records = log.read(log.log_start(), 1000, log.log_end())
    read = sorted(
        (reader.fields(each.value) for each in records if each.value), key=lambda row: row["id"]
    )
    schema = parse_schema(columns)
    arrays = [
        to_arrow_array([converter(field.type)(row[field.name]) for row in read], field.type)
        for field in schema
    ]
    changes = pa.table(arrays, schema=schema)
    both = {
        f"c{number} {kind}": [each[f"c{number}"].to_pylist() for each in (snapshot, changes)]
        for number, (kind, *_) in enumerate(types)
    }
    assert {name: values for name, values in both.items() if values[0] != values[1]} == {}
    assert snapshot.equals(changes)
    write_deltalake(str(case.folder / "t"), snapshot)
    asked = ComparedTable(case.dsn, f"{case.name}.types", columns, Folder(case.folder / "t"))
    found = compare_table(asked)
    assert (found.ok, found.rows) == (True, rows + 1), found.examples
