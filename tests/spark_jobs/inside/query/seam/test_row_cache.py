"""Kept rows of history: found whole, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.inside.query.seam.row_cache import find_kept, publish_rows, write_table


def test_kept_rows_whose_files_are_gone_are_not_read_as_no_rows(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    assert find_kept(place, "keys") is None
    kept = publish_rows(place, "keys", write_table(place, "keys", pa.table({"id": [1, 2]})))
    assert find_kept(place, "keys") == kept
    (tmp_path / kept.folder / "rows.parquet").unlink()
    with pytest.raises(StateError, match=f"are gone: {tmp_path / kept.folder}") as caught:
        find_kept(place, "keys")
    assert "hybrid generation new P" in caught.value.hint


def test_kept_rows_that_are_none_have_a_file_too(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    none = pa.table({"id": pa.array([], pa.int64())})
    kept = publish_rows(place, "keys", write_table(place, "keys", none))
    assert find_kept(place, "keys") == kept
