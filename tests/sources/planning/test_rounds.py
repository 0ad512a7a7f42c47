"""The end of a file source, from its plan and its rounds."""

from __future__ import annotations

from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import EndPosition
from sources.common.table_definition import BinlogDefinition
from sources.planning.files.file_plan import FilePlan
from sources.planning.files.rounds import History


def test_the_end_has_what_is_known_of_the_database_at_the_snapshot() -> None:
    end = EndPosition(
        source="snapshot",
        event_time_ms=7,
        complete_through_ms=7,
        event_times="exact",
        snapshot=PostgresSnapshot(lsn=1, xmin=1, xmax=1, in_progress=[], taken_ms=7),
        definition=BinlogDefinition(key=["id"], columns={}),
        splits=1,
        rows=3,
    )
    assert History([FilePlan.model_construct(end=end)], {}).end == end
