"""The same rows as Polars writes them, where it is installed: it is 180 MB."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.random_tables.writers import Writer


def of_polars(form: str) -> dict[str, Writer]:
    """Polars' writer of a format by its name; empty where Polars is not installed."""
    return {"Polars": _WRITERS[form]} if find_spec("polars") else {}


def _writer(write: Callable[[Any, Path, Random], None]) -> Writer:
    def of_table(table: pa.Table, path: Path, random: Random) -> None:
        import polars  # noqa: PLC0415 - may not be installed

        write(polars.from_arrow(table), path, random)

    return of_table


def _parquet(frame: Any, path: Path, random: Random) -> None:
    import polars  # noqa: PLC0415 - may not be installed

    empty = [name for name in frame.columns if frame[name].null_count() == len(frame)]
    if random.random() < 0.5:
        # As a column is whose values nobody has given a type.
        frame = frame.with_columns(polars.lit(None).alias(name) for name in empty)
    codec = random.choice(["zstd", "snappy", "gzip", "lz4", "uncompressed"])
    frame.write_parquet(path, compression=codec, row_group_size=random.choice([2, 1000]))


def _csv(frame: Any, path: Path, random: Random) -> None:
    style = random.choice(["necessary", "always", "non_numeric"])
    frame.write_csv(path, quote_style=style, line_terminator=random.choice(["\n", "\r\n"]))


_WRITERS = {
    "parquet": _writer(_parquet),
    "csv": _writer(_csv),
    "json": _writer(lambda frame, path, _: frame.write_ndjson(path)),
}
