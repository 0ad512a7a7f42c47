"""A look at how far a change log has read costs no more the longer the log is."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.change_feed import LogFeed
from hybrid_extensions.change_log.segments import Segments
from sources.storage.folder import Folder


def test_the_segments_of_a_log_are_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, feed = Segments(Folder(tmp_path / "log")), LogFeed(tmp_path)
    listings, names = [], Folder.names

    def counted(folder: Folder, pattern: str) -> list[str]:
        listings.append(pattern)
        return names(folder, pattern)

    monkeypatch.setattr(Folder, "names", counted)
    assert feed.reached is None
    for number in (4, 9):
        log.append([], {"start": {"file": "binlog.000002", "pos": number}})
        assert feed.reached == (2, number)
    assert len(listings) == 1
