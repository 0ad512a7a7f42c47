"""Which of several inputs has had no record, so that it holds back the watermark of all."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sources.common.positions import TopicPartition
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.reports.measurement import Measurement
from spark_jobs.inside.query.places.place import Reached
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.run_state.heartbeat import Heartbeat

BEAT = Heartbeat(
    launch_id="a",
    pid=1,
    host="h",
    source="payments",
    phase="unbounded",
    state="running",
    at_ms=0,
)
REPORT = SimpleNamespace(
    runId="r",
    batchId=0,
    batchDuration=100,
    numInputRows=1,
    processedRowsPerSecond=1.0,
    inputRowsPerSecond=1.0,
    eventTime={},
    stateOperators=[],
)


def place(topic: str, start: int) -> Any:
    return SimpleNamespace(
        starts={TopicPartition(topic, 0): start},
        reached=lambda offset: Reached(offsets=offset_log.kafka_offsets(offset)),
    )


@pytest.mark.parametrize(
    ("orders", "payments", "silent"),
    [
        pytest.param(5, 7, ["orders", "payments"], id="neither has a record yet"),
        pytest.param(6, 7, ["payments"], id="one has"),
        pytest.param(6, 9, [], id="both have"),
    ],
)
def test_an_input_is_silent_until_its_first_record_since_the_query_began(
    tmp_path: Path, orders: int, payments: int, silent: list[str]
) -> None:
    places = (place("orders", 5), place("payments", 7))
    declared = SimpleNamespace(
        places=places,
        read_places={1: places[1], 0: places[0]},
        beside={0: None},
        # Neither was read before.
        committed=lambda _: None,
        reached=lambda _: Reached(),
        generation=SimpleNamespace(checkpoint=Folder(tmp_path)),
        context=SimpleNamespace(
            pipeline=SimpleNamespace(
                sources=[SimpleNamespace(name="orders"), SimpleNamespace(name="payments")]
            )
        ),
    )
    measurement = Measurement(cast("QueryDeclaration", declared), 0)
    ends = [json.dumps({"orders": {"0": orders}}), json.dumps({"payments": {"0": payments}})]
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("\n".join(["v1", "{}", *ends]))
    fields = measurement.take(REPORT, 0, BEAT, idle=True)
    assert fields["silent"] == silent
    assert fields["offsets"] == {
        TopicPartition("orders", 0): orders,
        TopicPartition("payments", 0): payments,
    }
