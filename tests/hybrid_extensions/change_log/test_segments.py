"""A log of more segments than are known at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hybrid_extensions.change_log import segments as segments_module
from hybrid_extensions.change_log.segments import Change, Segments
from sources.storage.folder import Folder

TOPICS = [f"shop.t{number}" for number in range(5)]
SEGMENTS = 200


def test_a_long_log_is_read_by_several_readers_with_few_reads_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Segments(Folder(tmp_path))
    for number in range(SEGMENTS):
        values = [str(number).encode(), b"more"][: 1 + number % 2]
        written.append([Change(TOPICS[number % 5], b"k", value) for value in values], {})
    monkeypatch.setattr(segments_module, "_CACHED", 32)
    monkeypatch.setattr(segments_module, "_CACHED_BYTES", 1000)
    segments, reads = Segments(Folder(tmp_path)), Counter[str]()
    read_bytes = Folder.read_bytes

    def counted(folder: Folder, name: str) -> bytes | None:
        reads[name] += 1
        return read_bytes(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", counted)
    found: dict[str, list[bytes | None]] = {topic: [] for topic in TOPICS}
    while any(len(found[topic]) < segments.end(topic) for topic in TOPICS):
        for topic in TOPICS:
            if len(found[topic]) < segments.end(topic):
                found[topic] += segments.read(topic, len(found[topic]), 1 << 20).values
    numbers = {topic: [int(v) for v in found[topic] if v and v != b"more"] for topic in TOPICS}
    assert numbers == {topic: list(range(at, SEGMENTS, 5)) for at, topic in enumerate(TOPICS)}
    assert sum(len(each) for each in found.values()) == SEGMENTS * 3 // 2
    # What each segment says of itself, its records, and the ways to them.
    assert sum(reads.values()) < 4 * SEGMENTS, reads.most_common(5)
