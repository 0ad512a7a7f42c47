"""Position of a table by what its commits say, whatever came after them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sources.common.positions import TopicPartition
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.table.commit_position import CommitPosition, CommitPositions

OWNER = "events-g1-17"
GENERATION = GenerationInfo(generation="g1", transaction_id=OWNER, created_ms=0, contract={})


def test_a_micro_batch_says_where_each_source_stands_and_whether_history_counts(
    tmp_path: Path,
) -> None:
    generation = Generation(Folder(tmp_path), GENERATION)

    def said(batch: int, *ends: Any, **of: Any) -> CommitPosition:
        lines = ["v1", "{}", *("-" if each is None else json.dumps(each) for each in ends)]
        generation.checkpoint.replace_bytes(f"offsets/{batch}", "\n".join(lines).encode())
        positions = CommitPositions(generation, ["history", "live"], {"t": "c/t"}, **of)
        return CommitPosition.model_validate_json(positions.of(batch))

    plan = {"reservoirVersion": 1, "index": -1, "sourceVersion": 1}
    history = said(0, plan, None, is_append=False)
    assert (history.sources, history.writer) == ({"history": {"plan": [1, -1]}}, OWNER)
    assert history.offsets_of("live") is None
    query = "6e2ac1d6-9a1c-4b61-8c55-1b0f2a7a9c11"
    generation.checkpoint.replace_bytes("metadata", json.dumps({"id": query}).encode())
    end = {TopicPartition("t", 0): 5}
    live = said(7, plan, {"t": {"0": 5}}, seam_end=end)
    assert (live.writer, live.batch, live.seam) == (query, 7, False)
    assert live.offsets_of("live") == end
    assert said(8, plan, {"t": {"0": 4}}, seam_end=end).seam
    placeholder = said(9, plan, {"logOffset": -1})
    assert set(placeholder.sources) == {"history"}
