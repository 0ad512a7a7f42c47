"""Values in Avro mean what Spark's own `from_avro` makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.avro.decoder import AvroReader, parse_schemas
from sources.common.conversion import to_arrow_array
from sources.common.schema import TIMESTAMP, normalize, parse_schema
from sources.decoding.row_decoder import RowDecoder
from tests.random_tables.both_readers import comparable
from tests.random_tables.columns import (
    BINARY,
    EVENT_TIME,
    NESTED,
    PLAIN,
    draw_columns,
    draw_rows,
)
from tests.random_tables.dialects import AVRO_NAMES
from tests.random_tables.test_random_tables import SEED
from tests.random_tables.topic_shapes import (
    Values,
    avro_schema,
    avro_values,
    days,
    documents,
    micros,
    unscaled,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOPICS = 6
ROWS = 100
_PLAIN_NAMES = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int",
    pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "bytes",
}  # fmt: skip


def of_avro(table: pa.Table, random: Random) -> Values:
    """Rows with Avro's own logical types."""
    time = random.choice(["timestamp-micros", "local-timestamp-micros"])

    def kind_of(kind: pa.DataType) -> Any:
        if pa.types.is_decimal(kind):
            digits = {"precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        named = {
            TIMESTAMP: {"type": "long", "logicalType": time},
            pa.date32(): {"type": "int", "logicalType": "date"},
        }
        return named.get(kind) or _PLAIN_NAMES[kind]

    def leaf(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind):
            return micros(value)
        if pa.types.is_date(kind):
            return days(value)
        return unscaled(value, kind.scale) if pa.types.is_decimal(kind) else value

    schema = avro_schema(table, kind_of)
    kinds = {field.name: field.type for field in table.schema}
    return Values(avro_values(schema, documents(table, leaf)), kinds, schema)


SINGLE: dict[str, tuple[Any, list[Any]]] = {
    "uuid": ({"type": "string", "logicalType": "uuid"}, ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"]),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, [b"\x00\xff"]),
    "decimal in fixed": (
        {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 9,
         "scale": 2},
        [number.to_bytes(5, "big", signed=True) for number in (-125, 123_456_789)],
    ),
    "day time": ({"type": "int", "logicalType": "time-millis"}, [86_399_999]),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, [-1, 1_704_067_200_123]),
    "local millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, [-1]),
    "int or long": (["int", "long"], [1, 2**40]),
    "float or double": (["float", "double"], [0.5]),
    "one of one": (["string"], ["x"]),
    "null behind": (["long", "null"], [1, None]),
    "unknown logical type": ({"type": "int", "logicalType": "color"}, [7]),
    "invalid decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, [b"\x01"]
    ),
    "map": ({"type": "map", "values": ["null", "int"]}, [{"a": 1, "b": None}]),
}  # fmt: skip


def of_one(kind: Any, values: list[Any]) -> tuple[dict[str, Any], list[bytes]]:
    """A schema with one field, and values that are written with it."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
    return schema, avro_values(schema, [{"v": value} for value in values])


def by_decoder(schema: Any, values: list[bytes], columns: pa.Schema) -> list[dict[str, Any]]:
    """The rows as runs have them."""
    decoder = RowDecoder(AvroReader(parse_schemas([json.dumps(schema)]), None), columns)
    alone = zip(*(decoder.decode(value) for value in values), strict=True)
    arrays = [to_arrow_array(each, kind) for each, kind in zip(alone, columns.types, strict=True)]
    return shown(pa.Table.from_arrays(arrays, schema=columns))


def shown(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, with values that can be compared."""
    kinds = {field.name: field.type for field in table.schema}
    return [
        {name: comparable(value, kinds[name]) for name, value in row.items()}
        for row in table.to_pylist()
    ]


def by_from_avro(
    folder: Path, cases: dict[str, tuple[Any, list[bytes]]], readers: dict[str, Any] | None = None
) -> dict[str, pa.Table]:
    """What Spark makes of the values of each case, by the schema of a reader if it has one."""
    for name, (schema, values) in cases.items():
        (folder / name).mkdir()
        (folder / name / "schema.avsc").write_text(json.dumps(schema))
        if readers is not None:
            (folder / name / "reader.avsc").write_text(json.dumps(readers[name]))
        given = pa.table({"place": pa.array(range(len(values))), "value": values})
        pq.write_table(given, folder / name / "values.parquet")
    command = [sys.executable, "-m", "tests.random_tables.from_avro", str(folder)]
    subprocess.run(command, check=True)
    return {
        name: pq.read_table(folder / name / "rows.parquet").drop_columns(["place"])
        for name in cases
    }


def test_values_are_those_of_from_avro(tmp_path: Path) -> None:
    made: dict[str, tuple[Any, list[bytes], pa.Schema | None]] = {}
    for number in range(TOPICS):
        random = Random(f"from-avro-{SEED}-{number}")
        columns = draw_columns(random, [*PLAIN, BINARY, *NESTED], AVRO_NAMES)
        table = draw_rows(random, columns, 0, ROWS).drop_columns([EVENT_TIME])
        drawn = of_avro(table, random)
        made[f"case-{number}"] = (
            drawn.schema,
            drawn.values,
            pa.schema(list(drawn.columns.items())),
        )
    for number, (kind, values) in enumerate(SINGLE.values()):
        made[f"case-one-{number:02}"] = (*of_one(kind, values), None)
    by_spark = by_from_avro(tmp_path, {name: case[:2] for name, case in made.items()})
    different = {}
    for name, (schema, values, declared) in made.items():
        rows = by_spark[name]
        columns = declared or pa.schema([(f.name, normalize(f.type)) for f in rows.schema])
        found = by_decoder(schema, values, columns)
        if found != (right := shown(rows.select(columns.names))):
            pairs = zip(found, right, strict=True)
            different[name] = [pair for pair in pairs if pair[0] != pair[1]][:2]
    assert different == {}


def test_fields_of_other_versions_are_widened_or_null_and_no_reader_has_defaults(
    tmp_path: Path,
) -> None:
    def record(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": "r", "fields": [*fields]}

    number, part = {"name": "n", "type": "int"}, {"name": "f", "type": "float"}
    text = {"name": "old", "type": "string"}
    later = {"name": "more", "type": ["null", "int"], "default": None}
    written = record(number, part, text)
    values = avro_values(written, [{"n": 7, "f": 0.5, "old": "x"}])
    readers = {
        "case-wider": record({"name": "n", "type": "long"}, {"name": "f", "type": "double"}, later),
        "case-default": record(
            {"name": "more", "type": "int", "default": 9},
            {"name": "new", "type": "string", "aliases": ["old"]},
        ),
    }
    found = by_from_avro(tmp_path, dict.fromkeys(readers, (written, values)), readers)
    columns = parse_schema({"n": "bigint", "f": "double", "more": "int"})
    rows = by_decoder(written, values, columns)
    assert rows == shown(found["case-wider"].select(columns.names))
    assert rows == [{"n": 7, "f": "0.5", "more": None}]
    assert found["case-default"].to_pylist() == [{"more": 9, "new": "x"}]
    columns = parse_schema({"more": "int", "new": "string"})
    assert by_decoder(written, values, columns) == [{"more": None, "new": None}]
