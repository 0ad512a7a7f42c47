"""OpenLineage events: how data is named, and what happens if they can't be sent."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.lineage.datasets import named_place
from hybrid_extensions.lineage.declare import Lineage, LineageSection
from hybrid_extensions.servers.process import free_ports
from orchestration import step_observers
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from tests.hybrid_extensions.generations.test_generations import NEW, two
from tests.hybrid_extensions.lineage.receiver import receiving
from tests.orchestration.generations.generation_case import GenerationCase


@pytest.fixture(autouse=True)
def _without_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # OpenLineage's client itself sets variables for others.
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def fail() -> None:
    message = "The files differ."
    raise InputError(message, "Correct them.")


def with_lineage(folder: Path) -> LoadedPipeline:
    loaded = GenerationCase(folder).loaded
    return replace(loaded, sections=(LineageSection(lineage=Lineage(namespace="prod")),))


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/data/in/*.parquet", ("file", "/data/in")),
        ("/data/in/x.json", ("file", "/data/in/x.json")),
        ("file:///data/out", ("file", "/data/out")),
        ("s3://lake/raw/day=*/x.parquet", ("s3://lake", "raw")),
        ("s3://lake/*", ("s3://lake", "/")),
        ("hdfs://nn:8020/lake/raw", ("hdfs://nn:8020", "/lake/raw")),
        (
            "abfss://c@account.dfs.core.windows.net/raw/x",
            ("abfss://c@account.dfs.core.windows.net", "raw/x"),
        ),
    ],
)
def test_places_are_named_as_the_spec_names_them(path: str, named: tuple[str, str]) -> None:
    assert named_place(path) == named


def test_a_failed_step_is_reported_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = with_lineage(tmp_path)
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "s3cret-key")
        with pytest.raises(InputError), step_observers.reported(loaded, "plan"):
            fail()
        with pytest.raises(ZeroDivisionError), step_observers.reported(loaded, "plan"):
            _ = 1 / 0
        with pytest.raises(KeyboardInterrupt), step_observers.reported(loaded, "plan"):
            raise KeyboardInterrupt
    name = f"{loaded.pipeline.name}.plan"
    assert receiver.told == [
        (name, "START"),
        (name, "FAIL"),
        (name, "START"),
        (name, "FAIL"),
        (name, "START"),
        (name, "ABORT"),
    ]
    failed = receiver.events[1]
    assert "The files differ." in failed["run"]["facets"]["errorMessage"]["message"]
    assert failed["run"]["runId"] == receiver.events[0]["run"]["runId"]
    assert receiver.logins == {"Bearer s3cret-key"}
    assert "s3cret-key" not in str(receiver.events)
    receiver.require_valid()


def test_an_event_that_is_not_delivered_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = with_lineage(tmp_path)
    (port,) = free_ports(1)
    # A transport that only a URL declares is tried for nine seconds an event.
    transport = {"type": "http", "url": f"http://127.0.0.1:{port}", "retry": {"total": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    told: list[str] = []
    is_done = False
    with step_observers.reported(loaded, "plan", tell=told.append):
        is_done = True
    assert is_done
    start, complete = told
    assert start.startswith("The OpenLineage event START of plan was not delivered: ")
    assert complete.startswith("The OpenLineage event COMPLETE of plan was not delivered: ")


def test_a_declaration_that_leads_nowhere_is_refused_before_the_step(tmp_path: Path) -> None:
    is_begun = False
    with (
        pytest.raises(InputError, match="nothing says where events go"),
        step_observers.reported(with_lineage(tmp_path), "plan"),
    ):
        is_begun = True
    assert not is_begun


def test_the_end_of_a_live_run_does_not_fail_though_nothing_is_configured(tmp_path: Path) -> None:
    step_observers.live_run_ended(with_lineage(tmp_path), "live", "a" * 32)


def test_without_lineage_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        with step_observers.reported(GenerationCase(tmp_path).loaded, "plan"):
            pass
    assert receiver.events == []


def test_a_promotion_is_reported_with_the_version_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        case = two(tmp_path, lineage={"namespace": "prod"})
        promotion.promote(case.loaded)
    assert receiver.told == [("events.promotion", "START"), ("events.promotion", "COMPLETE")]
    promoted = receiver.last("events.promotion", "COMPLETE")
    (table,) = promoted["outputs"]
    version = int(table["facets"]["version"]["datasetVersion"])
    rows = DeltaTable(case.loaded.target.url, version=version).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == NEW
    receiver.require_valid()
