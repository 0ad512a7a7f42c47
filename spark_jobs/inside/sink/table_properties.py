"""Properties of the target: declared ones win; which columns have statistics, 32 at most.

Statistics of a column cost a comparison of each value. A file can be skipped by those of key,
sequence and times, in whose order rows are written; of other columns each file mostly has all
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import VECTORS, Sink

STATISTICS = "delta.dataSkippingStatsColumns"
"""Property of a Delta table: the columns of which files have statistics."""
INTEGERS = (ByteType, ShortType, IntegerType, LongType)
TIMES = (DateType, TimestampType, TimestampNTZType)
SAME_STATISTICS: tuple[type[DataType], ...] = (*INTEGERS, *TIMES, StringType)
"""Types whose statistics are the same whoever wrote them: Spark, or Delta's Rust library."""
_MOST_STATISTICS = 32


def table_properties(sink: Sink, columns: StructType) -> dict[str, str]:
    """Return the properties of a new target, but those that only Spark sets (:data:`VECTORS`).

    A table that is merged into has statistics of all columns of :data:`SAME_STATISTICS`, since its
    MERGE may be done without Spark; one that only grows, of key and times. They are 32 columns at
    most, those of key and sequence first.

    Args:
        sink: The declaration; its ``properties`` take precedence.
        columns: The columns of the table.
    """
    # Of partition columns Delta keeps the value itself.
    others = [each for each in columns if each.name not in sink.partition_by]
    able = [each.name for each in others if isinstance(each.dataType, SAME_STATISTICS)]
    times = [each.name for each in others if isinstance(each.dataType, TIMES)]
    first = [name for name in [*sink.key, *sink.order] if name in able]
    listed = _listed([*first, *(able if sink.mode == "merge" else times)])
    declared = {name: value for name, value in sink.properties.items() if name != VECTORS}
    return {**({STATISTICS: listed} if listed else {}), **declared}


def missing_properties(sink: Sink, columns: StructType, found: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an existing target still has to get, by name; maybe none.

    Those are declared ones with another value, and the statistics that a MERGE without Spark needs.

    Args:
        sink: The declaration of the sink.
        columns: The columns of the table.
        found: The properties that the table has.
    """
    wanted = dict(sink.properties)
    if sink.mode == "merge" and STATISTICS not in found:
        wanted |= table_properties(sink, columns)
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def with_same_statistics(columns: StructType) -> list[str]:
    """Return the columns whose statistics are the same whether Spark or delta-rs wrote them.

    Their names are in backticks.
    """
    return [
        in_backticks(each.name) for each in columns if isinstance(each.dataType, SAME_STATISTICS)
    ]


def _listed(names: Iterable[str]) -> str:
    distinct: Sequence[str] = list(dict.fromkeys(map(in_backticks, names)))
    return ",".join(distinct[:_MOST_STATISTICS])
