"""Both sides of a comparison, without a database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.compare import compared_sides as module
from hybrid_extensions.compare.compare_source import compare_table
from sources.errors import InputError
from sources.storage.folder import Folder

LONG_ROWS = "SELECT range AS id, repeat('x', 4000000) || range AS note FROM range(60)"


def test_rows_that_need_more_memory_than_a_comparison_takes_are_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_LIMIT", "20MB")
    rows = SimpleNamespace(write_rows=lambda *_: LONG_ROWS, quote=str)
    monkeypatch.setattr(module, "rows_of", lambda _: rows)
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1], "note": ["x"]}))
    columns = {"id": "bigint", "note": "string"}
    asked = ComparedTable("own://db", "public.orders", columns, Folder(tmp_path / "out"))
    with pytest.raises(
        InputError, match=r"^The rows of `public\.orders` can't be compared: "
    ) as seen:
        compare_table(asked)
    assert "`ignored_columns`" in seen.value.hint
