"""Tables of the state folder that people deleted or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import StateError
from sources.state.state_table import read_state_table
from sources.storage.folder import Folder


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and no more"])
def test_a_lost_or_damaged_table_of_the_state_is_refused_with_its_name(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "splits.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StateError, match=r"splits\.parquet") as refused:
        read_state_table(Folder(tmp_path), "splits.parquet")
    assert "generation new" in refused.value.hint
