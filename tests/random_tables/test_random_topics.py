"""Random rows as values of records: read as from_json does, and as their converters write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.avro.decoder import AvroReader, parse_schemas
from sources.common.conversion import to_arrow_array
from sources.common.schema import ddl
from sources.decoding.row_decoder import RowDecoder
from tests.e2e.records.json_records import read_records
from tests.random_tables.both_readers import CORRUPT, comparable
from tests.random_tables.columns import (
    BINARY,
    EVENT_TIME,
    NESTED,
    PLAIN,
    Kind,
    draw_columns,
    draw_rows,
)
from tests.random_tables.dialects import AVRO_NAMES
from tests.random_tables.test_random_tables import SEED, TABLES
from tests.random_tables.topic_shapes import (
    Values,
    ddl_of,
    in_millis,
    of_avro_converter,
    of_debezium,
    of_debezium_in_avro,
    of_json_converter,
    of_producer,
)
from tests.sources.decoding.value_case import changes_source, framed, registry

pytestmark = pytest.mark.spark

ROWS = 300
"""Rows of a topic: enough to be decoded together."""
TOPICS = max(TABLES // 50, 4)
WHOLE = [*PLAIN, BINARY, *NESTED]
ARRAYS = [each for each in NESTED if each.name in ("array<int>", "array<string>")]
Shape = Callable[[pa.Table, Random], Values]
Row = dict[str, Any]


def drawn(shape: Shape, kinds: list[Kind], number: int) -> tuple[pa.Table, Values]:
    random = Random(f"{shape.__name__}-{SEED}-{number}")
    table = draw_rows(random, draw_columns(random, kinds, AVRO_NAMES), 0, ROWS)
    table = in_millis(table.drop_columns([EVENT_TIME]))
    return table, shape(table, random)


def by_decoder(decoder: RowDecoder, made: Values) -> list[Row]:
    """The rows, decoded together and one by one, which is the same."""
    columns = pa.schema(list(made.columns.items()))
    alone = [decoder.decode(value) for value in made.values]
    arrays = [
        to_arrow_array(each, kind)
        for each, kind in zip(zip(*alone, strict=True), columns.types, strict=True)
    ]
    rows = shown(pa.Table.from_arrays(arrays, schema=columns))
    together = decoder.rows(pa.array(made.values, pa.binary()))
    for row, found in zip(rows, together.to_pylist(), strict=True):
        assert found is None or row == {
            name: comparable(value, made.columns[name]) for name, value in found.items()
        }
    return rows


def shown(table: pa.Table) -> list[Row]:
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    return [
        {name: comparable(value, kinds[name]) for name, value in row.items()}
        for row in table.to_pylist()
    ]


def by_from_json(spark: SparkSession, made: Values) -> dict[int, Row]:
    """Rows of the values that are not bad, by their place."""
    columns = pa.schema(list(made.columns.items()))
    options = {"columnNameOfCorruptRecord": CORRUPT}
    places = pa.array(range(len(made.values)))
    frame = spark.createDataFrame(pa.table({"at_place": places, "value": made.values}))
    text, schema = F.col("value").cast("string"), f"{ddl(columns)}, {CORRUPT} string"
    rows = frame.select("at_place", F.from_json(text, schema, options).alias("row"))
    table = rows.where(f"row.{CORRUPT} IS NULL").select("at_place", "row.*").toArrow()
    found = table.select(columns.names)
    return dict(zip(table["at_place"].to_pylist(), shown(found), strict=True))


@pytest.mark.parametrize("shape", [of_producer, of_json_converter], ids=lambda each: each.__name__)
def test_json_is_what_from_json_reads(
    tmp_path: Path, hybrid_spark: SparkSession, shape: Shape
) -> None:
    for number in range(TOPICS):
        table, made = drawn(shape, WHOLE, number)
        expected = by_from_json(hybrid_spark, made)
        found = read_records(
            hybrid_spark, tmp_path / str(number), made.values, ddl_of(made.columns)
        )
        rows = {
            at: {name: comparable(value, made.columns[name]) for name, value in row.items()}
            for at, row in found.items()
        }
        assert rows == expected
        assert len(rows) == len(table)


def test_avro_is_what_the_converter_wrote() -> None:
    for number in range(TOPICS):
        table, made = drawn(of_avro_converter, WHOLE, number)
        text = json.dumps(made.schema)
        columns = pa.schema(list(made.columns.items()))
        rows = by_decoder(RowDecoder(AvroReader(parse_schemas([text]), None), columns), made)
        assert rows == shown(table)


@pytest.mark.parametrize("shape", [of_debezium, of_debezium_in_avro], ids=lambda e: e.__name__)
def test_a_change_has_the_values_that_debezium_wrote(shape: Shape) -> None:
    with registry() as server:
        for number in range(TOPICS):
            table, made = drawn(shape, [*PLAIN, BINARY, *ARRAYS], number)
            more: dict[str, Any] = {}
            if made.schema is not None:
                schema_id = server.register(made.schema)
                made = made._replace(values=[framed(schema_id, each) for each in made.values])
                more["registry"] = {"url": server.url}
            declared = changes_source(ddl_of(made.columns), **more)
            columns = declared.value_schema(declared.declared_columns or {})
            assert by_decoder(RowDecoder(declared.reader(), columns), made) == shown(table)
