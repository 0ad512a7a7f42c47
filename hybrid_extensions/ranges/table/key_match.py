"""Match of keys in Arrow tables, equal by the rule of MERGE."""

from __future__ import annotations

import pyarrow as pa


def without_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """Return the rows whose key is not among some keys, compared as MERGE compares them.

    Null equals null, NaN equals NaN, and 0.0 equals -0.0, as by Spark's ``<=>``. Arrow's own join
    treats the first and the last pair as different.

    Args:
        rows: The rows.
        keys: Keys, with the columns of the key only.
    """
    # It takes long to import, and most ranges have no live rows.
    import duckdb  # noqa: PLC0415

    numbers = pa.array(range(rows.num_rows), pa.int64())
    names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in keys.column_names]
    same = " AND ".join(f"l.{name} IS NOT DISTINCT FROM r.{name}" for name in names)
    with duckdb.connect() as connection:
        numbered = rows.select(keys.column_names).append_column("__number", numbers)
        connection.register("l", numbered)
        connection.register("r", keys)
        query = f"SELECT __number FROM l ANTI JOIN r ON {same} ORDER BY 1"
        return rows.take(connection.sql(query).to_arrow_table()["__number"])
