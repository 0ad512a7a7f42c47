"""Metrics say what the status says; a real Prometheus scrapes them for the dashboard."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from hybrid_extensions.metrics import catalog
from hybrid_extensions.metrics.server import serve
from orchestration.supervision.rules.verdict import Health
from orchestration.supervision.status import status_of
from sources.common.positions import TopicPartition
from sources.common.times import now_ms, to_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import Launch
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name, read_heartbeat
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from spark_jobs.run_state.requested_state import request
from tests.e2e.case import Case, moment
from tests.services.processes import wait_for
from tests.services.prometheus_server import Prometheus, prometheus

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "hybrid-backfill.json"
YEARS_MS = 10 * 365 * 86_400_000
Families = dict[str, dict[str, float]]

pytestmark = [pytest.mark.kafka]


def beat_of(loaded: LoadedPipeline, source: str, **fields: Any) -> Heartbeat:
    at = now_ms()
    live = {
        "launch_id": "l1",
        "pid": 4_000_000,
        "host": socket.gethostname(),
        "source": source,
        "phase": "unbounded",
        "state": "running",
        "at_ms": at,
        "advanced_at_ms": at,
        "committed_at_ms": at,
        "batch_id": 7,
        "batch_ms": 1500,
        "rows_per_s": 20.0,
        "late_rows": 3,
        "bad_records": 2,
        "state_bytes": 1024,
        "state_rows": 5,
        "event_time_ms": at - 60_000,
        "watermark_ms": at - 90_000,
    }
    return Heartbeat.model_validate({**live, **fields})


def keep(generation: Generation, beat: Heartbeat, unit: str, done: int, left: int) -> None:
    generation.replace(heartbeat_name(beat.source), beat)
    sample = Sample(launch_id="l1", at_ms=beat.at_ms, done=done, left=left)
    log = ProgressLog.model_validate({"unit": unit, "samples": [sample]})
    generation.replace(progress_log_name(beat.source), log)


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Iterator[LoadedPipeline]:
    """A pipeline whose live run has committed 40 of 100 records, without its process."""
    case = Case(tmp_path, servers, config={"retention.ms": str(YEARS_MS)})
    case.write_history()
    case.produce(range(950, 1050))
    loaded = case.pipeline()
    make_plan(loaded)
    generation = loaded.require_generation()
    request(generation, "live", is_requested=True)
    launch = Launch(launch_id="l1", source="live", log="run/l.log", group=None, at_ms=now_ms())
    generation.replace("run/launch.json", launch)
    offsets = {TopicPartition(case.topic, 0): 40}
    keep(generation, beat_of(loaded, "live", offsets=offsets), "records", 40, 60)
    history = {"phase": "bounded", "state": "finished", "rows_done": 1000, "rows_total": 1000}
    keep(generation, beat_of(loaded, "history", **history), "rows", 1000, 0)
    with QueryLock(generation):
        yield loaded


def scrape(url: str) -> Families:
    """Value by labels, by name of the metric."""
    found: Families = {}
    for family in text_string_to_metric_families(requests.get(url, timeout=30).text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_a_scrape_says_what_the_status_says(live: LoadedPipeline) -> None:
    before_ms = now_ms()
    with serve([live.path], "127.0.0.1", 0) as url:
        found = scrape(url)
    after_ms = now_ms()
    at = "generation=g1,pipeline=events"
    status = status_of(live)
    assert status.live is not None
    assert found["hybrid_look_success"] == {"pipeline=events": 1}
    health = {f"generation=g1,health={each},pipeline=events": 0.0 for each in get_args(Health)}
    health[f"generation=g1,health={status.live.health},pipeline=events"] = 1
    assert found["hybrid_live_health"] == health
    assert found["hybrid_live_lag"] == {at: 60}
    assert found["hybrid_source_committed_total"] == {
        f"{at},source=history,unit=rows": 1000,
        f"{at},source=live,unit=records": 40,
    }
    own = f"{at},source=live"
    assert found["hybrid_source_left"][f"{own},unit=records"] == 60
    assert found["hybrid_source_batch_seconds"][own] == 1.5
    assert found["hybrid_source_late_rows_total"][own] == 3
    assert found["hybrid_source_bad_records_total"][own] == 2
    beat = read_heartbeat(live.require_generation(), "live")
    assert beat is not None
    assert beat.event_time_ms is not None
    lag_ms = found["hybrid_live_event_time_lag_seconds"][at] * 1000
    assert before_ms <= round(beat.event_time_ms + lag_ms) <= after_ms
    [headroom_s] = found["hybrid_retention_headroom_seconds"].values()
    lost_ms = to_ms(moment(990)) + YEARS_MS
    assert before_ms <= round(lost_ms - headroom_s * 1000) <= after_ms


def test_a_pipeline_that_can_not_be_read_has_one_metric(live: LoadedPipeline) -> None:
    with serve([live.path], "127.0.0.1", 0) as url:
        live.path.write_text("name: [")
        assert scrape(url) == {"hybrid_look_success": {"pipeline=events": 0}}


def test_a_port_in_use_is_told(live: LoadedPipeline) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(InputError, match=rf"can't be served at 127\.0\.0\.1:{port}: Address"),
            serve([live.path], "127.0.0.1", port),
        ):
            pass


def test_the_command_serves_until_it_is_ended(live: LoadedPipeline) -> None:
    hybrid = Path(sys.prefix) / "bin" / "hybrid"
    with subprocess.Popen(
        [str(hybrid), "metrics", str(live.path), "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        url = re.search(r"http://\S+/metrics", running.stderr.readline())
        assert url is not None
        assert scrape(url[0])["hybrid_look_success"] == {"pipeline=events": 1}
        running.terminate()
        assert running.wait(20) == 130


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_each_metric_of_the_dashboard_exists() -> None:
    suffix = {"counter": "_total", "gauge": ""}
    known = {f"{catalog.PREFIX}{each.name}{suffix[each.kind]}" for each in catalog.EVERY}
    named = {name for text in expressions() for name in re.findall(r"hybrid_\w+", text)}
    assert named <= known
    assert len(named) > 12


def test_a_real_prometheus_answers_the_queries_of_the_dashboard(
    live: LoadedPipeline, tmp_path: Path
) -> None:
    with serve([live.path], "127.0.0.1", 0) as url, prometheus(tmp_path, url) as server:
        wait_for(lambda: len(server.query("up == 1")) == 1, "the first scrape", 30)
        waiting = {text.replace("$pipeline", ".+") for text in expressions()}
        # Rates need a second scrape.
        wait_for(lambda: not _unanswered(server, waiting), "an answer to each query", 60)
        [lag] = server.query("hybrid_live_lag")
        assert (lag["metric"]["pipeline"], lag["value"][1]) == ("events", "60")


def _unanswered(server: Prometheus, waiting: set[str]) -> set[str]:
    """Queries without an answer yet; those that have one are taken out."""
    waiting -= {text for text in waiting if server.query(text)}
    return waiting
