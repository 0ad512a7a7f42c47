"""Every kind of document in the state folder: of this version, or refused by name."""

from __future__ import annotations

from contextlib import suppress

import pytest

pytest.importorskip("hybrid_extensions.cuts", reason="it has each kind of document")

from hybrid_extensions.cdc.compared.kept_compare import KeptCompare
from hybrid_extensions.cdc.connector_restart import ConnectorRestarts
from hybrid_extensions.cdc.databases.altered_table import TableWatch
from hybrid_extensions.cdc.databases.replication_slot import SlotGone
from hybrid_extensions.cdc.slot_watch import SlotWatch
from hybrid_extensions.cdc.spark.followed_columns import ColumnsLog
from hybrid_extensions.cuts.barrier import Barrier, Crossing
from hybrid_extensions.generations.files.range_history import RemovedFiles
from hybrid_extensions.generations.switch.group_members import Group
from hybrid_extensions.generations.switch.lock import SwitchHolder
from orchestration.comparison.kept_audit import KeptAudit
from orchestration.supervision.refused_restart import RefusedRestart
from orchestration.supervision.watch_memory import Watch
from sources.common.positions import EndPosition, StartPosition
from sources.common.state_document import Record
from sources.config.loader import KeptDefinition
from sources.config.source.bad_record_policy import BadRecordCount
from sources.config.source.rate_limit import CurrentRate
from sources.config.source.snapshot import SnapshotManifest
from sources.errors import StateError
from sources.ledger import Ledger, SeamCount
from sources.planning.approval import Approval
from sources.planning.declaration_digests import PlannedBy
from sources.planning.exports import ExportRecord
from sources.planning.files.discovery import Discovery
from sources.planning.files.open_snapshot import WholeTable
from sources.planning.files.passed_range import PassedRange
from sources.planning.files.rounds import Round
from sources.planning.plan import Plan
from sources.planning.topics.followed_columns import FollowedColumns
from sources.planning.topics.key_of_changes import KeyOfChanges
from sources.planning.topics.recreated_topics import SeenTopics
from sources.planning.topics.topic_range import TopicRange
from sources.planning.transform_analysis import TransformAnalysis
from sources.serving import Serving, Switch
from sources.state.action_log import Action, ActionEnd
from sources.state.adopted_table import Adopted
from sources.state.generation import CurrentGeneration, GenerationInfo
from spark_jobs.checkpoint.history_watermark import HistoryWatermark
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.inside.query.seam.row_cache import KeptRows
from spark_jobs.inside.readers.files.kept_batch import KeptBatch
from spark_jobs.inside.readers.files.staged_listings import StagedListing
from spark_jobs.launch.launch_record import Launch
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.late_row_count import LateRows
from spark_jobs.run_state.lease import LeaseRecord
from spark_jobs.run_state.progress_log import ProgressLog
from spark_jobs.run_state.repairs import Repairs
from spark_jobs.run_state.requested_state import RequestedState
from spark_jobs.run_state.target_record import TargetRecord
from spark_jobs.run_state.truncate_position import Truncated
from spark_jobs.run_state.wrong_rows import WrongRows
from spark_jobs.table.history_files import CompactedFiles

KINDS: list[type[Record]] = [
    Action,
    ActionEnd,
    Adopted,
    Approval,
    BadRecordCount,
    Barrier,
    ColumnsLog,
    CompactedFiles,
    Crossing,
    CurrentGeneration,
    CurrentRate,
    Discovery,
    EndPosition,
    ExportRecord,
    FollowedColumns,
    GenerationInfo,
    Group,
    Heartbeat,
    HistoryWatermark,
    KeptAudit,
    KeptBatch,
    KeptCompare,
    KeptDefinition,
    KeptRows,
    KeyOfChanges,
    LateRows,
    Launch,
    LeaseRecord,
    Ledger,
    PassedRange,
    Plan,
    PlannedBy,
    ProgressLog,
    RefusedRestart,
    RequestedState,
    Round,
    SeamCount,
    SeenTopics,
    Serving,
    SlotGone,
    ConnectorRestarts,
    SlotWatch,
    SnapshotManifest,
    StartPosition,
    StagedListing,
    Switch,
    SwitchHolder,
    TableWatch,
    RemovedFiles,
    TargetRecord,
    TopicRange,
    Transform,
    Truncated,
    TransformAnalysis,
    Watch,
    Repairs,
    WholeTable,
    WrongRows,
]
# Of extensions that are there.
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.feeds.documents import KINDS as OF_FEEDS

    KINDS += OF_FEEDS
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.change_log.documents import KINDS as OF_CHANGE_LOG

    KINDS += OF_CHANGE_LOG
with suppress(ModuleNotFoundError):
    from tests.hybrid_extensions.training.documents import KINDS as OF_TRAINING

    KINDS += OF_TRAINING


def test_no_kind_of_document_is_left_out_here() -> None:
    assert set(KINDS) == set(Record.__subclasses__())


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_of_another_version_is_refused_by_its_kind(
    kind: type[Record], step: int
) -> None:
    version = kind.VERSION + step
    with pytest.raises(StateError) as caught:
        kind.parse(b'{"version": %d}' % version)
    text = str(caught.value)
    assert "A document of the state folder can't be read" in text
    assert f"it has version {version}, this project reads version {kind.VERSION}" in text
    assert "Run the version of this project that wrote it." in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 512, id="zeros"),
        pytest.param(b"\xff\xfe{}", id="no text"),
        pytest.param(b'{"version": 1, "a": ' + b"[" * 200_000, id="nested without end"),
        pytest.param(b'{"version": ' + b"9" * 5000 + b"}", id="a number without end"),
    ],
)
def test_what_is_no_document_is_refused_by_its_file(text: bytes) -> None:
    with pytest.raises(StateError, match=r"^/state/end\.json can\'t be read: "):
        EndPosition.parse(text, "/state/end.json")


def test_what_is_wrong_in_a_document_is_told_by_its_fields_and_without_names_of_classes() -> None:
    with pytest.raises(StateError) as caught:
        EndPosition.parse(b'{"version": %d, "source": 5}' % EndPosition.VERSION, "/state/end.json")
    text = str(caught.value)
    assert "`source`: Input should be a valid string; `event_time_ms`: Field required; " in text
    assert "EndPosition" not in text
    with pytest.raises(
        StateError, match=r"end\.json can't be read: it has no version, this project"
    ):
        EndPosition.parse(b"[]", "/state/end.json")
