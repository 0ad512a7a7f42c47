"""Random tables that delta-rs writes: plan and audit know what its own query reads."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.files.listing.source_listing import list_source
from tests.hybrid_extensions.audit.file_rows import read_by_audit
from tests.hybrid_extensions.delta_history.random_delta import RandomDelta
from tests.minimal import minimal_model
from tests.properties import examples
from tests.random_tables.both_readers import by_key
from tests.random_tables.columns import EVENT_TIME

pytestmark = pytest.mark.slow

EVERY_TIME = {
    "column": EVENT_TIME,
    "not_before": "0001-01-01T00:00:00Z",
    "not_after": "9999-12-31T23:59:59.999999Z",
    "outside": "keep",
}


@examples(60)
@given(st.integers(0, 2**32))
def test_what_a_table_holds_is_planned_and_audited(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("table")
    made = RandomDelta(folder / "t", Random(seed))
    source = {"type": "files", "name": "history", "format": "delta", "path": "t"}
    pipeline = minimal_model(source, event_time=EVERY_TIME)
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    loaded = LoadedPipeline(folder / "p.yaml", pipeline)
    splits = list_source(loaded, declared).splits
    table = QueryBuilder().register("t", DeltaTable(folder / "t"))
    wanted = pa.table(table.execute("SELECT * FROM t").read_all())
    assert by_key(read_by_audit(loaded, folder / "copies")) == by_key(wanted), made.steps
    assert sum(splits["rows"].to_pylist()) == len(wanted), made.steps
    assert sum(splits["nulls"].to_pylist()) == wanted[EVENT_TIME].null_count, made.steps
    micros = wanted[EVENT_TIME].drop_null().cast(pa.int64()).to_pylist()
    lows, highs = (splits[f"event_{end}_us"].drop_null().to_pylist() for end in ("min", "max"))
    # The log keeps milliseconds.
    found = [each // 1000 for each in (*sorted(lows)[:1], *sorted(highs)[-1:])]
    assert found == [each // 1000 for each in (*sorted(micros)[:1], *sorted(micros)[-1:])]
