"""How the recorded tables were made: statements of Spark SQL, `{t}` is the table.

A step of another kind is a name and its arguments: what Spark SQL has no statement for.
"""

from __future__ import annotations

from collections.abc import Sequence

Step = str | tuple[str, ...]
_MOMENT = "timestamp'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, {}) "
KEYS = "k bigint, at timestamp"
MERGE_ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}


def some(first: int, last: int, *more: str) -> str:
    """Insert rows whose keys are from ``first`` to before ``last``, with SQL of further columns."""
    columns = "".join(f", {each}" for each in more)
    moment = _MOMENT.format("id * 1.000001")
    return f"INSERT INTO {{t}} SELECT id, {moment}{columns} FROM range({first}, {last})"


class Made:
    """A table.

    Args:
        columns: Its columns besides the key and the event time.
        statements: What is done after it was created.
        layout: Its partitions.
        properties: Its properties.
        event_time: SQL type of the event time.
    """

    def __init__(
        self,
        columns: str,
        *statements: Step,
        layout: str = "",
        properties: dict[str, str] | None = None,
        event_time: str = "timestamp",
    ) -> None:
        self.columns = ", ".join(["k bigint", f"at {event_time}", *([columns] if columns else [])])
        self.statements: Sequence[Step] = statements
        self.layout = layout
        self.properties = properties or {}


REWRITE = (
    "CALL lake.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))"
)
V = "concat('v', id % 3)"
EVOLVED: list[Step] = [
    some(0, 4, V),
    "ALTER TABLE {t} RENAME COLUMN v TO w",
    "ALTER TABLE {t} ADD COLUMN v bigint",
    some(4, 8, V, "id"),
    "ALTER TABLE {t} DROP COLUMN w",
    "ALTER TABLE {t} ALTER COLUMN v FIRST",
    "INSERT INTO {t} (k, at, v) VALUES (8, timestamp'2024-01-02', 80), (9, null, null)",
]
DELETED: list[Step] = [
    some(0, 10, V),
    some(10, 20, V),
    "DELETE FROM {t} WHERE k IN (0, 9, 19)",
    "UPDATE {t} SET v = 'changed' WHERE k IN (3, 13)",
    "MERGE INTO {t} USING (SELECT 4L AS k) AS s ON {t}.k = s.k WHEN MATCHED THEN DELETE",
]
AS_PARQUET: list[Step] = [
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'parquet')",
    REWRITE,
]
TRANSFORMS = "PARTITIONED BY (days(at), bucket(4, k), truncate(2, v), w)"
TABLES: dict[str, Made] = {
    "plain": Made("v string", some(0, 5, V), some(5, 9, V)),
    "transforms": Made(
        "v string, w string", some(0, 9, V, "concat('w/', id % 2, '=%é')"), layout=TRANSFORMS
    ),
    "years_and_months": Made(
        "u timestamp",
        some(0, 9, "timestamp'2020-01-01' + make_dt_interval(id * 100)"),
        layout="PARTITIONED BY (years(at), months(u))",
    ),
    "hours": Made("v string", some(0, 9, V), layout="PARTITIONED BY (hours(at))"),
    "evolved": Made("v string", *EVOLVED),
    "wider": Made(
        "i int, f float, n decimal(5,2)",
        some(0, 3, "int(id)", "float(id / 4)", "decimal(id / 4)"),
        "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(20,2)",
        some(3, 6, "id + 5000000000", "1e300", "1234567890.25"),
    ),
    "renamed_and_wider": Made(
        "i int",
        some(0, 3, "int(id)"),
        "ALTER TABLE {t} RENAME COLUMN i TO j",
        "ALTER TABLE {t} ALTER COLUMN j TYPE bigint",
        some(3, 6, "id + 5000000000"),
        REWRITE,
    ),
    "other_partitions": Made(
        "v string",
        some(0, 4, V),
        "ALTER TABLE {t} ADD PARTITION FIELD v",
        some(4, 8, V),
        "ALTER TABLE {t} REPLACE PARTITION FIELD v WITH bucket(2, k)",
        some(8, 12, V),
        "ALTER TABLE {t} ADD PARTITION FIELD days(at)",
        some(12, 16, V),
    ),
    "renamed_partition": Made(
        "v string",
        some(0, 4, V),
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        some(4, 8, V),
        layout="PARTITIONED BY (v)",
    ),
    "deleted_by_copies": Made("v string", *DELETED),
    "deleted_on_read": Made("v string", *DELETED, properties=MERGE_ON_READ),
    "all_deleted_on_read": Made(
        "v string", some(0, 4, V), "DELETE FROM {t} WHERE k >= 0", properties=MERGE_ON_READ
    ),
    "deleted_and_evolved": Made(
        "v string", *EVOLVED, "DELETE FROM {t} WHERE k IN (0, 7)", properties=MERGE_ON_READ
    ),
    "nested": Made(
        "s struct<a:int,b:string>, m map<string,struct<x:int>>, l array<struct<y:int>>",
        some(
            *(0, 3),
            "named_struct('a', int(id), 'b', 'x')",
            "map('one', named_struct('x', 1))",
            "array(named_struct('y', 2), null)",
        ),
        "ALTER TABLE {t} RENAME COLUMN s.a TO c",
        "ALTER TABLE {t} DROP COLUMN s.b",
        "ALTER TABLE {t} ADD COLUMN s.b string",
        "ALTER TABLE {t} ADD COLUMN m.value.z string",
        "ALTER TABLE {t} ADD COLUMN l.element.z string",
        "INSERT INTO {t} VALUES (3, timestamp'2024-01-01', named_struct('c', 1, 'b', 'new'), "
        "map('two', named_struct('x', 2, 'z', 'z')), array(named_struct('y', 3, 'z', 'z')))",
    ),
    "branches": Made(
        "v string",
        some(0, 4, V),
        "ALTER TABLE {t} CREATE BRANCH other",
        "INSERT INTO {t}.branch_other VALUES (100, timestamp'2030-01-01', 'other')",
        "ALTER TABLE {t} CREATE TAG before",
        some(4, 6, V),
    ),
    "truncated": Made("v string", some(0, 4, V), "TRUNCATE TABLE {t}", some(4, 6, V)),
    "emptied": Made("v string", some(0, 4, V), "TRUNCATE TABLE {t}"),
    "never_written": Made("v string"),
    "overwritten": Made(
        "v string",
        some(0, 9, V),
        "DELETE FROM {t} WHERE v = 'v1'",
        "INSERT OVERWRITE {t} VALUES (50, timestamp'2025-01-01', 'v2')",
        layout="PARTITIONED BY (v)",
    ),
    "rolled_back": Made(
        "v string",
        some(0, 4, V),
        some(4, 8, V),
        "CALL lake.system.rollback_to_snapshot('{n}', {first_snapshot})",
    ),
    "rewritten": Made(
        "v string",
        *EVOLVED,
        REWRITE,
        "CALL lake.system.rewrite_manifests('{n}')",
    ),
    "added_files": Made(
        "v string",
        "CALL lake.system.add_files('{n}', '`parquet`.`{files}`')",
        REWRITE,
        layout="PARTITIONED BY (v)",
    ),
    "times_without_a_zone": Made(
        "v string",
        "INSERT INTO {t} VALUES (1, timestamp_ntz'2024-01-01 00:00:00.123456', 'a'), "
        "(2, timestamp_ntz'1969-12-31 23:59:59.999999', 'b'), (3, null, 'c')",
        event_time="timestamp_ntz",
    ),
    "without_bounds": Made(
        "v string", some(0, 4, V), properties={"write.metadata.metrics.default": "none"}
    ),
    "odd_names": Made(
        "`a.b` string, `x y` int, `Ünï` string, `_h` int", some(0, 3, V, "1", V, "2")
    ),
    "identity_of_times": Made("v string", some(0, 3, V), layout="PARTITIONED BY (at)"),
    "orc": Made(
        "v string",
        some(0, 3, V),
        *AS_PARQUET,
        properties={"write.format.default": "orc"},
    ),
    "avro": Made(
        "v string",
        some(0, 3, V),
        *AS_PARQUET,
        properties={"write.format.default": "avro"},
    ),
    "packed_metadata": Made(
        "v string", some(0, 3, V), properties={"write.metadata.compression-codec": "gzip"}
    ),
    "distant_times": Made(
        "d date",
        "INSERT INTO {t} VALUES (1, timestamp'0001-01-01 00:00:00', date'0001-01-01'), "
        "(2, timestamp'9999-12-31 23:59:59.999999', date'9999-12-31'), "
        "(3, timestamp'1582-10-10 00:00:00', date'1582-10-10')",
    ),
}
FIRST: dict[str, Made] = {
    "without_a_list": Made(
        "v string",
        some(0, 4, V),
        ("without_list",),
        REWRITE,
    ),
}
"""Tables that only the first version of the format has."""
SECOND: dict[str, Made] = {
    "deletes_by_values": Made(
        "v string",
        some(0, 5, V),
        some(5, 9, V),
        ("delete_by_values", "1", "7"),
        some(9, 12, V),
        REWRITE,
    ),
    "deletes_in_avro": Made(
        "v string",
        some(0, 5, V),
        "DELETE FROM {t} WHERE k IN (1, 3)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.format.default' = 'parquet')",
        "CALL lake.system.rewrite_position_delete_files(table => '{n}', "
        "options => map('rewrite-all', 'true'))",
        properties={**MERGE_ON_READ, "write.delete.format.default": "avro"},
    ),
    "uuid": Made(
        "v string",
        ("add_uuid", "u"),
        some(0, 3, V, "uuid()"),
        "CREATE TABLE lake.v2.uuid_as_text USING iceberg TBLPROPERTIES ({own}) AS "
        "SELECT k, at, CAST(u AS string) AS u FROM {t}",
    ),
}
THIRD: dict[str, Made] = {
    "variant": Made(
        "v variant",
        some(0, 3, "parse_json('{{\"a\": 1}}')"),
        "CREATE TABLE lake.v3.variant_as_text USING iceberg TBLPROPERTIES ({own}) AS "
        "SELECT k, at, to_json(v) AS v FROM {t}",
    ),
    "defaults": Made(
        "v string", some(0, 3, V), ("add_default", "n"), some(3, 6, V, "int(id)"), REWRITE
    ),
}
"""Tables that only the third version of the format has."""
