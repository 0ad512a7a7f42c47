"""Random tables that PyIceberg writes: plan and audit know what its own scan reads."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from tests.hybrid_extensions.audit.file_rows import read_by_audit
from tests.hybrid_extensions.iceberg.random_tables import RandomTable
from tests.minimal import minimal_model
from tests.properties import examples
from tests.random_tables.both_readers import by_key
from tests.random_tables.columns import EVENT_TIME

pytestmark = pytest.mark.slow

REFUSED = [
    "it has no field ids, only the table has names for them",
    "under an older name, and Spark would mistake its type",
    "whose value in its partition is",
]
"""Why tables are refused, as docs/sources.md lists it."""
EVERY_TIME = {
    "column": EVENT_TIME,
    "not_before": "0001-01-01T00:00:00Z",
    "not_after": "9999-12-31T23:59:59.999999Z",
    "outside": "keep",
}


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@examples(30)
@given(st.integers(0, 2**32), st.booleans())
def test_what_a_table_holds_is_planned_and_audited_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, seed: int, is_current: bool
) -> None:
    random, folder = Random(seed), tmp_path_factory.mktemp("table")
    made = RandomTable(folder / "lake", random)
    snapshots = [each.snapshot_id for each in made.table.snapshots()]
    version = None if is_current or not snapshots else random.choice(snapshots)
    source = {"type": "files", "name": "history", "format": "iceberg", "version": version}
    path = made.table.metadata_location.removeprefix("file://")
    pipeline = minimal_model({**source, "path": path}, event_time=EVERY_TIME)
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    loaded = LoadedPipeline(folder / "p.yaml", pipeline)
    try:
        splits = list_source(loaded, declared).splits
    except InputError as error:
        if not any(reason in error.message for reason in REFUSED):
            raise
        return
    wanted = made.table.scan(snapshot_id=version).to_arrow()
    assert by_key(read_by_audit(loaded, folder / "copies")) == by_key(wanted), made.steps
    assert sum(splits["rows"].to_pylist()) == len(wanted), made.steps
    assert sum(splits["nulls"].to_pylist()) == wanted[EVENT_TIME].null_count, made.steps
    micros = wanted[EVENT_TIME].drop_null().cast(pa.int64()).to_pylist()
    lows, highs = (splits[f"event_{end}_us"].drop_null().to_pylist() for end in ("min", "max"))
    ends = min(lows, default=None), max(highs, default=None)
    assert ends == (min(micros, default=None), max(micros, default=None)), made.steps
