"""A log of more segments than are kept in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.change_log import segments as segments_module
from hybrid_extensions.change_log.segments import Change, Segments
from sources.storage.folder import Folder

TOPICS = [f"shop.t{number}" for number in range(5)]
SEGMENTS = 60


@pytest.mark.parametrize(("most", "most_bytes"), [(8, 1 << 20), (1000, 500), (8, 500)])
def test_few_of_many_small_segments_are_kept_and_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, most_bytes: int
) -> None:
    monkeypatch.setattr(segments_module, "_CACHED", most)
    monkeypatch.setattr(segments_module, "_CACHED_BYTES", most_bytes)
    segments = Segments(Folder(tmp_path))
    for number in range(SEGMENTS):
        segments.append([Change(TOPICS[number % 5], b"k", str(number).encode())], {})
    found: dict[str, list[bytes | None]] = {topic: [] for topic in TOPICS}
    for again in (segments, Segments(Folder(tmp_path))):
        for topic in TOPICS:
            found[topic] = []
            while len(found[topic]) < again.end(topic):
                found[topic] += again.read(topic, len(found[topic]), 1 << 20).values
        assert found == {
            topic: [str(number).encode() for number in range(first, SEGMENTS, 5)]
            for first, topic in enumerate(TOPICS)
        }
        kept = again._tables.values()
        # As many as there may be, each of them counted once.
        assert 1 <= len(kept) <= most
        assert again._tables_bytes == sum(table.nbytes for table, _ in kept) <= most_bytes
