"""The same rows as several tools write them, in dialects that these have."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import orc
from pyspark.sql import SparkSession

Writer = Callable[[pa.Table, Path, Random], None]
_NS_FIRST = dt.datetime(1677, 9, 22, tzinfo=dt.UTC)
_NS_LAST = dt.datetime(2262, 4, 11, tzinfo=dt.UTC)


def fits_nanoseconds(column: pa.ChunkedArray) -> bool:
    """Whether all times of a column have a number of nanoseconds in 64 bits."""
    return all(each is None or _NS_FIRST < each < _NS_LAST for each in column.to_pylist())


# Parquet and ORC


def parquet_of_arrow(table: pa.Table, path: Path, random: Random) -> None:
    """Arrow's writer with any of its settings, and types that Parquet stores alike."""
    stored = [_stored(table[field.name], random) for field in table.schema]
    pq.write_table(
        pa.table(stored, names=table.column_names),
        path,
        version=random.choice(["1.0", "2.4", "2.6"]),
        compression=random.choice(["snappy", "zstd", "gzip", "none", "lz4"]),
        use_dictionary=random.choice([True, False]),
        data_page_version=random.choice(["1.0", "2.0"]),
        row_group_size=random.choice([3, 1000]),
        store_schema=random.choice([True, False]),
        use_deprecated_int96_timestamps=random.random() < 0.2,
        write_statistics=random.random() < 0.8,
    )


def _stored(column: pa.ChunkedArray, random: Random) -> pa.ChunkedArray | pa.Array:
    """A column in one of the types that mean the same."""
    kind = column.type
    others = [kind]
    if pa.types.is_timestamp(kind):
        others += [pa.timestamp("us")]
        if fits_nanoseconds(column):
            others += [pa.timestamp("ns", "UTC"), pa.timestamp("ns")]
    elif pa.types.is_string(kind):
        others += [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    elif pa.types.is_binary(kind):
        others += [pa.large_binary(), pa.binary_view()]
    elif pa.types.is_list(kind):
        others += [pa.large_list(kind.value_type)]
    if column.null_count == len(column):
        others += [pa.null()]
    chosen = random.choice(others)
    return pa.nulls(len(column)) if pa.types.is_null(chosen) else column.cast(chosen)


def parquet_of_pandas(table: pa.Table, path: Path, _: Random) -> None:
    """pandas' writer: nanoseconds, and columns of type null where no text is known."""
    frame = as_frame(table)
    frame.to_parquet(path, index=False)


def as_frame(table: pa.Table) -> pd.DataFrame:
    """A table as people have it in pandas: NumPy's types where these hold the values."""
    columns = {}
    for name in table.column_names:
        column, kind = table[name], table[name].type
        numpy = not column.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))
        if numpy or pa.types.is_floating(kind) or pa.types.is_string(kind):
            columns[name] = column.to_pandas()
        elif pa.types.is_timestamp(kind) and fits_nanoseconds(column):
            columns[name] = column.to_pandas().astype("datetime64[ns, UTC]")
        else:
            columns[name] = pd.Series(pd.arrays.ArrowExtensionArray(column))
    return pd.DataFrame(columns)


def parquet_of_duckdb(table: pa.Table, path: Path, random: Random) -> None:
    """DuckDB's writer."""
    codec = random.choice(["snappy", "zstd", "gzip", "uncompressed"])
    _copy(table, path, f"FORMAT parquet, CODEC '{codec}'")


def _copy(table: pa.Table, path: Path, options: str) -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("t", table)
        database.execute(f"COPY t TO '{path}' ({options})")


def orc_of_arrow(table: pa.Table, path: Path, random: Random) -> None:
    """Arrow's writer of ORC."""
    orc.write_table(
        table, path, compression=random.choice(["uncompressed", "zlib", "zstd", "snappy"])
    )


def of_spark(spark: SparkSession, form: str, **options: str) -> Writer:
    """Spark's own writer of a format."""

    def write(table: pa.Table, path: Path, _: Random) -> None:
        folder = path.with_name(f"{path.name}.folder")
        frame = spark.createDataFrame(table).coalesce(1)
        frame.write.format(form).options(**options).save(str(folder))
        (part,) = folder.glob("part-*")
        part.rename(path)
        shutil.rmtree(folder)

    return write


# Avro


def avro_of_fastavro(table: pa.Table, path: Path, random: Random) -> None:
    """fastavro's writer, with logical types, in one of the codecs."""
    fields = [
        {"name": field.name, "type": _avro_type(field.type, field.name, nullable=True)}
        for field in table.schema
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    rows = [
        {name: _avro_value(value, table.schema.field(name).type) for name, value in row.items()}
        for row in table.to_pylist()
    ]
    with path.open("wb") as file:
        codec = random.choice(["null", "deflate", "bzip2"])
        fastavro.writer(file, schema, rows, codec=codec, sync_interval=random.choice([200, 16_000]))


def _avro_type(kind: pa.DataType, at: str, *, nullable: bool) -> Any:
    if nullable:
        return ["null", _avro_type(kind, at, nullable=False)]
    if pa.types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _avro_type(kind.value_type, f"{at}_item", nullable=True)}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _avro_type(kind.item_type, f"{at}_value", nullable=True)}
    if pa.types.is_struct(kind):
        inner = [
            {
                "name": field.name,
                "type": _avro_type(field.type, f"{at}_{field.name}", nullable=True),
            }
            for field in kind
        ]
        return {"type": "record", "name": f"{at}_record", "fields": inner}
    plain: dict[pa.DataType, Any] = {
        pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int",
        pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
        pa.binary(): "bytes", pa.date32(): {"type": "int", "logicalType": "date"},
        pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    }  # fmt: skip
    return plain[kind]


def _avro_value(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_map(kind) and value is not None:
        return {key: _avro_value(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) and value is not None:
        return [_avro_value(item, kind.value_type) for item in value]
    return value


# CSV


def csv_of_python(table: pa.Table, path: Path, random: Random) -> None:
    """Python's own writer; an absent value is nothing between two commas."""
    ends = random.choice(["\r\n", "\n"])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(
            file, lineterminator=ends, quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        )
        writer.writerow(table.column_names)
        writer.writerows([_csv_text(value) for value in row.values()] for row in table.to_pylist())


def _csv_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def csv_of_pandas(table: pa.Table, path: Path, _: Random) -> None:
    """pandas' writer."""
    as_frame(table).to_csv(path, index=False)


def csv_of_arrow(table: pa.Table, path: Path, _: Random) -> None:
    """Arrow's writer, which quotes every text."""
    pa_csv.write_csv(table, path)


def csv_of_duckdb(table: pa.Table, path: Path, _: Random) -> None:
    """DuckDB's writer."""
    _copy(table, path, "FORMAT csv, HEADER")


# JSON lines


def json_of_python(table: pa.Table, path: Path, random: Random) -> None:
    """Python's own writer; members without a value are left out now and then."""
    leaves_out, as_text = random.random() < 0.5, random.random() < 0.5
    lines = []
    for row in table.to_pylist():
        if leaves_out:
            row = {name: value for name, value in row.items() if value is not None}  # noqa: PLW2901
        plain = {
            name: _json_value(value, table.schema.field(name).type, as_text=as_text)
            for name, value in row.items()
        }
        text = json.dumps(plain, ensure_ascii=random.random() < 0.5)
        lines.append(_NUMBER_MARK.sub(text))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class _Marks:
    """Marks decimals, as Python writes no number of a given text."""

    def mark(self, value: Decimal) -> str:
        return f"\u0001{value:f}\u0002"

    def sub(self, text: str) -> str:
        for first in ('"\\u0001', '"\u0001'):
            text = text.replace(first, "")
        for last in ('\\u0002"', '\u0002"'):
            text = text.replace(last, "")
        return text


_NUMBER_MARK = _Marks()


def _json_value(value: Any, kind: pa.DataType, *, as_text: bool) -> Any:
    if value is None:
        return None
    if isinstance(value, Decimal):
        return str(value) if as_text else _NUMBER_MARK.mark(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.date):
        return value.isoformat()
    if pa.types.is_map(kind):
        return {key: _json_value(item, kind.item_type, as_text=as_text) for key, item in value}
    if pa.types.is_list(kind):
        return [_json_value(item, kind.value_type, as_text=as_text) for item in value]
    if pa.types.is_struct(kind):
        return {
            field.name: _json_value(value[field.name], field.type, as_text=as_text)
            for field in kind
        }
    return value


def json_of_pandas(table: pa.Table, path: Path, _: Random) -> None:
    """pandas' writer, with times and decimals as texts: it knows only doubles."""
    frame = as_frame(table)
    for name in table.column_names:
        if pa.types.is_decimal(table[name].type):
            frame[name] = [None if each is None else str(each) for each in table[name].to_pylist()]
    frame.to_json(path, orient="records", lines=True, date_format="iso", date_unit="us")


def json_of_duckdb(table: pa.Table, path: Path, _: Random) -> None:
    """DuckDB's writer."""
    _copy(table, path, "FORMAT json")
