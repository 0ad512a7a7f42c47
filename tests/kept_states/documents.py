"""The documents of kept states, each with its kind, and one of each kind that no state has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid_extensions.cdc.spark.followed_columns import ColumnsLog
from hybrid_extensions.generations.switch.lock import SwitchHolder
from orchestration.supervision.refused_restart import RefusedRestart
from orchestration.supervision.watch_memory import Watch
from sources.common.positions import EndPosition, StartPosition
from sources.common.state_document import Record
from sources.config.loader import KeptDefinition
from sources.config.source.bad_record_policy import BadRecordCount
from sources.config.source.rate_limit import CurrentRate
from sources.ledger import Ledger, SeamCount
from sources.planning.approval import Approval
from sources.planning.declaration_digests import PlannedBy
from sources.planning.plan import Plan
from sources.planning.topics.key_of_changes import KeyOfChanges
from sources.planning.topics.recreated_topics import SeenTopics
from sources.planning.transform_analysis import TransformAnalysis
from sources.serving import Serving, Switch
from sources.state.action_log import Action, ActionEnd
from sources.state.generation import CurrentGeneration, GenerationInfo
from spark_jobs.checkpoint.history_watermark import HistoryWatermark
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.inside.query.seam.row_cache import KeptRows
from spark_jobs.inside.readers.files.kept_batch import KeptBatch
from spark_jobs.inside.readers.files.staged_listings import StagedListing
from spark_jobs.launch.launch_record import Launch
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.late_row_count import LateRows
from spark_jobs.run_state.progress_log import ProgressLog
from spark_jobs.run_state.requested_state import RequestedState
from spark_jobs.run_state.target_record import TargetRecord
from tests.kept_states.archives import HOME, Kept

_KINDS: dict[str, type[Record]] = {
    r"current\.json": CurrentGeneration,
    r"serving\.json": Serving,
    r"switch\.json": Switch,
    r"switch-holder\.json": SwitchHolder,
    r"actions/\d+-begun\.json": Action,
    r"actions/\d+-ended\.json": ActionEnd,
    r"g\d+/generation\.json": GenerationInfo,
    r"g\d+/definition/hybrid-definition\.json": KeptDefinition,
    r"g\d+/history-watermark\.json": HistoryWatermark,
    r"g\d+/ledger/\w+-seam\.json": SeamCount,
    r"g\d+/ledger/\w+\.json": Ledger,
    r"g\d+/plan-log/\w+-batch\.json": KeptBatch,
    r"g\d+/plan\.json": Plan,
    r"g\d+/planned-by\.json": PlannedBy,
    r"g\d+/approval\.json": Approval,
    r"g\d+/columns\.json": ColumnsLog,
    r"g\d+/positions/\w+-end\.json": EndPosition,
    r"g\d+/positions/\w+-start\.json": StartPosition,
    r"g\d+/run/\w+-heartbeat\.json": Heartbeat,
    r"g\d+/run/\w+-progress\.json": ProgressLog,
    r"g\d+/run/\w+-rate\.json": CurrentRate,
    r"g\d+/run/\w+-key\.json": KeyOfChanges,
    r"g\d+/run/\w+-topics\.json": SeenTopics,
    r"g\d+/run/launch\.json": Launch,
    r"g\d+/run/requested(-before-switch)?\.json": RequestedState,
    r"g\d+/run/restart-refused\.json": RefusedRestart,
    r"g\d+/run/watch\.json": Watch,
    r"g\d+/seam/.*/\w+\.json": KeptRows,
    r"g\d+/target\.json": TargetRecord,
    r"g\d+/transform-analysis\.json": TransformAnalysis,
    r"g\d+/transforms/\d+\.json": Transform,
    r"g\d+/late/\w+\.json": LateRows,
    r"g\d+/bad/\w+-\w+\.json": StagedListing,
    r"g\d+/bad/\w+\.json": BadRecordCount,
}
_SAMPLES = "documents.json"
# Of Spark and of Delta.
_OF_OTHERS = re.compile(r"(^|/)(checkpoint|_delta_log)/")


def documents(kept: Kept) -> Iterator[tuple[str, type[Record] | None, bytes]]:
    """Each JSON document of a state: its name, its kind if that is known, and its content."""
    home = f"state/{kept.name}/"
    for path, content in kept.read():
        name = path.removeprefix(home)
        if name != path and name.endswith(".json") and not _OF_OTHERS.search(name):
            kinds = (kind for form, kind in _KINDS.items() if re.fullmatch(form, name))
            yield name, next(kinds, None), content


def write_samples(version: str, samples: Sequence[Record]) -> None:
    """Keep documents of kinds that no state of a version has."""
    kept = [[type(each).__name__, each.model_dump(mode="json")] for each in samples]
    (HOME / version / _SAMPLES).write_text(json.dumps(kept, indent=1) + "\n")


def read_samples(version: str) -> list[tuple[str, dict[str, Any]]]:
    """The documents that were kept so: the name of the kind, and the content."""
    return [(kind, each) for kind, each in json.loads((HOME / version / _SAMPLES).read_text())]


def sampled_versions() -> list[str]:
    """The versions of which there are such documents."""
    return sorted(path.parent.name for path in HOME.glob(f"*/{_SAMPLES}"))
