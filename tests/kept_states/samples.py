"""A document of each kind that the kept states do not contain, with a value in every field."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from hybrid_extensions.cdc.compared.kept_compare import ComparedRange, KeptCompare
from hybrid_extensions.cdc.connector_restart import ConnectorRestarts
from hybrid_extensions.cdc.databases.altered_table import AlteredTable, RequiredColumn, TableWatch
from hybrid_extensions.cdc.databases.replication_slot import SlotGone
from hybrid_extensions.cdc.slot_watch import SlotWatch
from hybrid_extensions.cdc.spark.followed_columns import ColumnsLog, FollowedColumn
from hybrid_extensions.cuts.barrier import Barrier, Crossing
from hybrid_extensions.generations.files.range_history import RemovedFiles
from hybrid_extensions.generations.switch.group_members import Group, Member
from orchestration.comparison.kept_audit import Acceptance, KeptAudit
from orchestration.comparison.report import BadLine, LedgerLine
from orchestration.supervision.refused_restart import RefusedRestart
from orchestration.supervision.watch_memory import Restart, Watch
from sources.common.database_snapshot import BinlogSnapshot, PostgresSnapshot
from sources.common.positions import EndPosition, TopicPartition
from sources.common.state_document import Record
from sources.common.table_definition import (
    BinlogColumn,
    BinlogDefinition,
    PostgresColumn,
    PostgresDefinition,
    PostgresFile,
)
from sources.config.source.exported_source import ExportEnd
from sources.config.source.file_options import FileBatch
from sources.config.source.rate_limit import CurrentRate, RateLimit
from sources.config.source.snapshot import Chunk, SnapshotManifest
from sources.errors import ErrorReport
from sources.files.tables.table_position import TablePosition
from sources.planning.approval import Approval
from sources.planning.exports import ExportRecord
from sources.planning.files.discovery import Discovery
from sources.planning.files.open_snapshot import WholeTable
from sources.planning.files.passed_range import PassedRange
from sources.planning.files.rounds import Round
from sources.planning.plan import Plan
from sources.planning.topics.followed_columns import FollowedChange, FollowedColumns
from sources.planning.topics.key_of_changes import KeyOfChanges
from sources.planning.topics.recreated_topics import SeenTopics
from sources.planning.topics.topic_range import TopicRange
from sources.serving import Served, Serving
from sources.state.adopted_table import Adopted
from spark_jobs.inside.query.seam.row_cache import KeptRows
from spark_jobs.inside.readers.files.kept_batch import KeptBatch
from spark_jobs.inside.readers.files.staged_listings import StagedListing
from spark_jobs.run_state.late_row_count import DroppedRows, LateRows, Period
from spark_jobs.run_state.lease import LeaseRecord
from spark_jobs.run_state.repairs import Repair, Repairs, Righted
from spark_jobs.run_state.truncate_position import Truncated
from spark_jobs.run_state.wrong_rows import WrongRow, WrongRows
from spark_jobs.table.history_files import CompactedFiles

# Of extensions that are there.
OF_EXTENSIONS: list[Record] = []
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.feeds.documents import SAMPLES

    OF_EXTENSIONS += SAMPLES
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.change_log.documents import SAMPLES as OF_LOGS

    OF_EXTENSIONS += OF_LOGS
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.training.documents import SAMPLES as OF_TRAINING

    OF_EXTENSIONS += OF_TRAINING

_AT = 1_704_067_200_000  # 2024-01-01
_ENDS = {TopicPartition("t", 0): 25, TopicPartition("t", 1): 26}
_ERROR = ErrorReport(
    kind="RunError", message="It ended.", hint="Start it.", transient=True, fields={"topic": "t"}
)
_IN_POSTGRES = PostgresDefinition(
    oid="16400",
    identity="d",
    key=["id"],
    columns={
        "id": PostgresColumn(number=1, type="bigint", changed_by="700"),
        "mood": PostgresColumn(number=2, type="mood", changed_by="700", labels={"16410": "sad"}),
    },
    files={
        "16401": PostgresFile(
            name="public.orders_1",
            node="16402",
            written_by="700",
            attached_by="701",
            attached_at=2,
            is_empty=True,
        )
    },
    horizon="710",
)
_IN_BINLOG = BinlogDefinition(
    key=["id"],
    columns={
        "id": BinlogColumn(type="bigint", is_nullable=False),
        "v": BinlogColumn(type="varchar(9)", charset="utf8mb4", is_generated=True),
    },
)
_DROPPED = DroppedRows(batch_id=3, rows=2, watermark_ms=_AT, operators=["aggregate"])


def samples(plan: Plan, end: EndPosition) -> Sequence[Record]:
    """The documents, whose parts that only a run makes are those of a kept state.

    Args:
        plan: A plan.
        end: An end position.
    """
    (files,) = plan.files
    return [
        *_of_planning(plan, end),
        Adopted(
            table_version=3,
            newest=5,
            offsets={TopicPartition("events", 0): 17},
            by_commits=True,
            before=["events-g1"],
        ),
        Approval(plan="ab12", by="Ada", at_ms=_AT),
        ExportRecord(
            source="history",
            folder="5e0c",
            files={"page-00000.parquet": 4096},
            end=ExportEnd(
                offsets=_ENDS, sequence=42, complete_through=datetime(2024, 1, 1, tzinfo=UTC)
            ),
            taken_ms=_AT,
        ),
        Barrier(number=2, is_open=True, until_ms=_AT, position="0" * 32),
        Crossing(number=2, batch=9, table_version=11, failure="closed"),
        ColumnsLog(
            followed={
                "w": FollowedColumn(
                    type="int", default="1", is_done=True, table="5e0c", at_version=4
                )
            },
            left_out={"x": 2},
        ),
        CompactedFiles(removed=["a.parquet", "b.parquet"], added=["c.parquet"]),
        RemovedFiles(paths=["a.parquet"]),
        Group(
            members=[
                Member(file="/orders.yaml", to="g2"),
                Member(file="/hours.yaml", to="g3", follows="/orders.yaml"),
            ],
            at_ms=_AT,
            by="Ada",
            stage="begun",
        ),
        CurrentRate(source="live", limit=RateLimit(offsets=100)),
        *OF_EXTENSIONS,
        FollowedColumns(
            changes=[
                FollowedChange(
                    kind="added",
                    column="w",
                    type="int",
                    default=1,
                    topic="t",
                    partition=0,
                    offset=25,
                    position="0" * 32,
                    at_ms=_AT,
                )
            ]
        ),
        _audit(),
        KeptCompare(
            begun_ms=_AT,
            at="9",
            finished_ms=_AT,
            ranges=[
                ComparedRange(
                    first="1",
                    until="9",
                    at_ms=_AT,
                    rows=8,
                    differing=1,
                    examples=['{"id":3} differs in v'],
                )
            ],
            postponed="the live run is late",
            repaired_ms=_AT,
        ),
        KeptBatch(batch=FileBatch(files=2)),
        KeptRows(folder="seam/keys", rows=100),
        KeyOfChanges(columns=["id"]),
        LateRows(
            source="live",
            last_batch=3,
            dropped=2,
            unknown_batches=1,
            first=_DROPPED,
            latest=_DROPPED,
            periods=[Period(begin_ms=_AT, read=100, dropped=2)],
        ),
        LeaseRecord(
            epoch=2,
            holder="ab12",
            host="kept-states.example",
            machine="cd34",
            pid=4711,
            is_driven=True,
            ttl_s=30,
            renewals=5,
        ),
        RefusedRestart(requested_ms=_AT, launch_id="ab12", report=_ERROR),
        Watch(
            requested_ms=_AT,
            launch_id="ab12",
            batch_id=3,
            behind_since_ms=_AT,
            lag_unknown_since_ms=_AT,
            down_since_ms=_AT,
            restarts=[Restart(at_ms=_AT, replaces="ab12", why="it ended")],
            gave_up=True,
            alerted="failed",
        ),
        Serving(
            generation="g2",
            before=[Served(generation="g1", version=11, until_ms=_AT, by="Ada")],
            by="Ada",
        ),
        ConnectorRestarts(connector="http://connect:8083/connectors/shop", restarted_ms=[_AT]),
        SeenTopics(topics={"shop.public.orders": "cluster/topic"}),
        SlotGone(slot="shop", at_ms=_AT, state="lost"),
        SlotWatch(slot="shop", idle_since_ms=_AT, unread_lsn=1000, unread_since_ms=_AT, misset="x"),
        TableWatch(
            looked_ms=_AT,
            definition=_IN_POSTGRES,
            stated=_IN_BINLOG,
            statements=_ENDS,
            required=[
                RequiredColumn(
                    table="shop.orders", column="v", statement="ALTER TABLE orders …", since_ms=_AT
                )
            ],
            unknown="no answer",
            altered=AlteredTable(
                table="shop.orders",
                what="Table `shop.orders` of the database was dropped",
                way="Begin a new generation.",
                statement="DROP TABLE orders",
                since_ms=_AT,
                found_ms=_AT,
            ),
        ),
        *_of_snapshots(),
        StagedListing(batch=3),
        Discovery(number=1, files=files),
        PassedRange(position=TablePosition(place="/t", table_id="1", version=3, commit="0")),
        WholeTable(source="snapshot", chunks=12, at_ms=_AT),
        Truncated(position="0" * 32),
        Repairs(
            repairs=[
                Repair(
                    id="1f",
                    begun_ms=_AT,
                    version="0" * 32,
                    log_end="0" * 16,
                    missing=1,
                    different=2,
                    extra=3,
                    table_version=4,
                )
            ],
            righted={"changes": Righted(batch=3, unknown=1)},
        ),
        WrongRows(keys={"1": WrongRow(partition=0, offset=25, batch=3)}, unknown=1, last_batch=3),
    ]


def _of_planning(plan: Plan, end: EndPosition) -> Sequence[Record]:
    (files,) = plan.files
    return [
        Round(number=1, files=files, seam_end=_ENDS, why="files arrived", behind_ms=60_000),
        TopicRange(
            source="archive",
            starts=dict.fromkeys(_ENDS, 0),
            ends=_ENDS,
            clock_ms=_AT,
            splits_file="splits/archive.parquet",
            batches=2,
            end=end,
            seam_end=_ENDS,
        ),
    ]


def _of_snapshots() -> Sequence[Record]:
    postgres = PostgresSnapshot(lsn=1000, xmin=700, xmax=710, in_progress=[705], taken_ms=_AT)
    binlog = BinlogSnapshot(file=3, offset=484, domain=0, sequence=42, taken_ms=_AT)
    return [
        SnapshotManifest(
            table="public.orders",
            key=("id", "bigint"),
            bounds=["100"],
            snapshots=[seen],
            offsets=_ENDS,
            done={0: Chunk(rows=99, snapshot=0), 1: Chunk(rows=1, snapshot=0)},
            definition=definition,
        )
        for seen, definition in ((postgres, _IN_POSTGRES), (binlog, _IN_BINLOG))
    ]


def _audit() -> KeptAudit:
    line = LedgerLine(
        source="live",
        topic="t",
        partition=0,
        start=5,
        first_offset=5,
        seam_rows=20,
        delivered=10,
        removed=10,
        before_start=0,
        outcome="agrees",
        reason="none",
    )
    bad = BadLine(
        source="live",
        policy="drop",
        found=2,
        counted=2,
        lacking=0,
        outcome="agrees",
        reason="none",
        kind="unreadable",
    )
    counts = dict.fromkeys(
        ("missing_rows", "duplicated", "different", "unexpected", "ambiguous"), 1
    )
    return KeptAudit(
        at_ms=_AT,
        seconds=1.5,
        outcome="failed",
        input_rows={"history": 200, "live": 250},
        expected=300,
        found=299,
        ledger=[line],
        bad_records=[bad],
        unchecked=["nothing"],
        notes=["none"],
        accepted=Acceptance(at_ms=_AT, by="anna", why="known"),
        overtaken="a repair",
        **counts,
    )
