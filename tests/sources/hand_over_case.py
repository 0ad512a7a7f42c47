"""Hand-overs without Spark: plan, what bounded runs leave, and a broker that lives on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from sources import hand_over as module
from sources.common.positions import StartPosition
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hand_over import hand_over
from sources.hybrid import SwitchState
from sources.ledger import Ledger
from sources.planning.context import PipelineContext
from sources.planning.files.rounds import history_of
from sources.planning.plan import make_plan
from tests.e2e.case import Case, live_of


def prepared(folder: Path, servers: str) -> Case:
    """Events 0…999 in files, complete through event 899; 500…1999 in one partition."""
    case = Case(folder, servers)
    case.write_history()
    case.produce()
    return case


def live(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["sources"][1].update(fields)


def finish(loaded: LoadedPipeline, *names: str) -> None:
    """What bounded runs leave: the end of each source, or of `history`."""
    generation = loaded.require_generation()
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    for name in names or ("history",):
        enumerator.finish(history_of(generation, make_plan(loaded), name).end)


def up_to_hand_over(loaded: LoadedPipeline) -> LoadedPipeline:
    make_plan(loaded)
    finish(loaded)
    return loaded


def hand_over_in_part(loaded: LoadedPipeline) -> None:
    """Die between start position and ledger."""

    def die(*_: object, **_named: object) -> Ledger:
        message = "killed"
        raise RuntimeError(message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "make_ledger", die)
        with pytest.raises(RuntimeError, match="killed"):
            hand_over(PipelineContext.require(loaded), live_of(loaded))


def hand_over_anew(case: Case) -> Ledger:
    """As another process does it, that knows the pipeline's file only."""
    loaded = load_pipeline(case.folder / "events.yaml")
    return hand_over(PipelineContext.require(loaded), live_of(loaded))


def decided(loaded: LoadedPipeline) -> StartPosition | None:
    generation = loaded.require_generation()
    return SwitchState(loaded.pipeline.hybrid_source(), generation).start_of("live")


def documents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def delete_below(case: Case, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": case.servers})
    below = confluent_kafka.TopicPartition(case.topic, 0, offset)
    for done in admin.delete_records([below]).values():
        done.result()
