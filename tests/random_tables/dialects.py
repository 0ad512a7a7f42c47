"""Which tools write a dialect, and how the product and Spark are told to read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from tests.random_tables import writers as w
from tests.random_tables.columns import BINARY, NAMES, NEAR, NESTED, PLAIN, Kind
from tests.random_tables.polars_writers import of_polars

_FAR = ("timestamp", "date")
AVRO_NAMES = ["plain", "UPPER", "select", "_hidden", "camelCase", "n1", "x_y"]


class Dialect(NamedTuple):
    """A dialect of a format.

    Attributes:
        name: Its name, for messages.
        format: The format, as both spell it.
        suffix: End of the names of its files.
        writers: Tools that write it, by their names.
        kinds: Types that it has.
        names: Names of columns that it has.
        declared: What the declaration of a source says beside the format.
        options: Options of Spark's reader.
    """

    name: str
    format: str
    suffix: str
    writers: Mapping[str, w.Writer]
    kinds: list[Kind]
    names: list[str]
    declared: Mapping[str, Any] = {}
    options: Mapping[str, str] = {}


def dialects(spark: SparkSession) -> list[Dialect]:
    """All dialects; Spark writes its files by this session."""
    whole = [*PLAIN, BINARY, *NESTED]
    quoted = {"header": "true", "escape": '"'}
    return [
        Dialect(
            "parquet",
            "parquet",
            ".parquet",
            {
                "Arrow": w.parquet_of_arrow,
                "pandas": w.parquet_of_pandas,
                "DuckDB": w.parquet_of_duckdb,
                "Spark": w.of_spark(spark, "parquet"),
                **of_polars("parquet"),
            },
            whole,
            NAMES,
            {"schema_drift": {}},
        ),
        Dialect(
            "orc",
            "orc",
            ".orc",
            {"Arrow": w.orc_of_arrow, "Spark": w.of_spark(spark, "orc")},
            # Far times and dates are refused, as docs/values.md says.
            [each for each in whole if not any(kind in each.name for kind in _FAR)] + NEAR,
            NAMES,
        ),
        Dialect(
            "avro",
            "avro",
            ".avro",
            {"fastavro": w.avro_of_fastavro},
            whole,
            AVRO_NAMES,
        ),
        Dialect(
            "csv",
            "csv",
            ".csv",
            {
                "Python": w.csv_of_python,
                "pandas": w.csv_of_pandas,
                "Arrow": w.csv_of_arrow,
                "DuckDB": w.csv_of_duckdb,
                **of_polars("csv"),
            },
            PLAIN,
            NAMES,
            {"on_bad_record": "drop"},
            quoted,
        ),
        Dialect(
            "json",
            "json",
            ".json",
            {
                "Python": w.json_of_python,
                "pandas": w.json_of_pandas,
                "DuckDB": w.json_of_duckdb,
                "Spark": w.of_spark(spark, "json"),
                **of_polars("json"),
            },
            [*PLAIN, *NESTED],
            NAMES,
            {"on_bad_record": "drop"},
        ),
    ]
