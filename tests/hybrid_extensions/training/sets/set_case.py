"""A training set of three tables, and the rows that it has to have by a search through all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.training.sets.compute import Computed, compute, look
from hybrid_extensions.training.sets.range_states import RangeState, set_of
from sources.config.loader import LoadedPipeline
from tests.minimal import minimal_pipeline

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
LABELS = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("asked", TIME), ("y", pa.int64())])
OWN = pa.schema([("start", TIME), ("shop", pa.string()), ("n", pa.int64()), ("known_at", TIME)])
PRICES = pa.schema([("shop", pa.string()), ("price", pa.int64()), ("told", TIME)])
RATES = pa.schema([("shop", pa.string()), ("rate", pa.int64()), ("since", TIME), ("until", TIME)])


def at(hour: float | None) -> datetime | None:
    """A time, in hours after the begin of 2024."""
    return None if hour is None else BEGIN + timedelta(hours=hour)


class Case:
    """A pipeline with a training set `sales` in a folder, its labels and its tables.

    Args:
        folder: An empty folder.
        fields: Fields of the set that are other than usual.
    """

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.folder = folder
        self.labels: list[tuple[int, str | None, float]] = []
        self.own: list[tuple[str, int, int, float]] = []
        self.prices: list[tuple[str, int, float]] = []
        self.rates: list[tuple[str, int, float, float | None]] = []
        self.tables: list[dict[str, Any]] = [
            {"name": "own", "columns": ["n"]},
            {"name": "prices", "path": "prices", "key": ["shop"], "known_at": "told",
             "columns": ["price"]},
            {"name": "rates", "path": "rates", "key": ["shop"], "valid_from": "since",
             "valid_to": "until", "columns": ["rate"]},
        ]  # fmt: skip
        self.fields = fields

    @property
    def loaded(self) -> LoadedPipeline:
        """The pipeline, as it is declared now."""
        labels = {"path": "labels.parquet", "key": ["id"], "time": "asked", "start": "2024-01-01"}
        sales = {"name": "sales", "labels": labels, "path": "sales", "tables": self.tables}
        return minimal_pipeline(
            self.folder,
            {"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"},
            transform="shop:rows",
            sink={"path": "out", "mode": "append", "key": ["start", "shop"]},
            training_sets=[{**sales, **self.fields}],
        )

    def write_labels(self) -> None:
        rows = [(n, shop, at(hour), n * 10) for n, shop, hour in self.labels]
        pq.write_table(_table(rows, LABELS), self.folder / "labels.parquet")

    def add(
        self,
        own: Sequence[tuple[str, int, int, float]] = (),
        prices: Sequence[tuple[str, int, float]] = (),
        rates: Sequence[tuple[str, int, float, float | None]] = (),
    ) -> None:
        """Append rows to the tables, which then exist."""
        self.own += own
        self.prices += prices
        self.rates += rates
        self._append("out", [(at(h), shop, n, at(k)) for shop, h, n, k in own], OWN)
        self._append("prices", [(shop, n, at(k)) for shop, n, k in prices], PRICES)
        self._append("rates", [(shop, n, at(f), at(t)) for shop, n, f, t in rates], RATES)

    def compute(self, ranges: Sequence[str] | None = None) -> Computed:
        loaded = self.loaded
        return compute(loaded, set_of(loaded, "sales"), ranges)

    def look(self) -> dict[str, RangeState]:
        loaded = self.loaded
        return {each.key: each for each in look(loaded, set_of(loaded, "sales"))}

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the set, by id."""
        found = DeltaTable(self.folder / "sales").to_pyarrow_table()
        rows: list[dict[str, Any]] = found.sort_by("id").to_pylist()
        return rows

    def expected(self) -> list[dict[str, Any]]:
        """The rows that it has to have."""
        return [self._row(*each) for each in sorted(self.labels)]

    def _row(self, number: int, shop: str | None, hour: float) -> dict[str, Any]:
        row: dict[str, Any] = {"id": number, "shop": shop, "asked": at(hour), "y": number * 10}
        # Of rows known at the same time, the latest window.
        own = max(((k, h, n) for s, h, n, k in self.own if s == shop and k <= hour), default=None)
        row |= {"own__n": own and own[2], "own__known_at": own and at(own[0])}
        price = max(((k, n) for s, n, k in self.prices if s == shop and k <= hour), default=None)
        row |= {"prices__price": price and price[1], "prices__known_at": price and at(price[0])}
        rate = max(
            (
                (since, n, until)
                for s, n, since, until in self.rates
                if s == shop and since <= hour and (until is None or until > since)
            ),
            key=lambda each: each[:2],
            default=None,
        )
        if rate is not None and rate[2] is not None and rate[2] <= hour:
            rate = None
        row |= {"rates__rate": rate and rate[1], "rates__known_at": rate and at(rate[0])}
        moment = BEGIN + timedelta(hours=hour)
        return {**row, "label_range": f"{moment:%Y-%m-%d}"}

    def _append(self, name: str, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> None:
        if rows or not (self.folder / name).exists():
            write_deltalake(self.folder / name, _table(rows, schema), mode="append")


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    made: list[Mapping[str, Any]] = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(made, schema)
