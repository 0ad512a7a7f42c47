"""Cuts in Dagster: an asset that a sensor materializes, at most as often as is declared."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.cdc.tables.dagster import template_definitions
from hybrid_extensions.cdc.tables.template import FoundTable
from hybrid_extensions.cuts import dagster as cuts_module
from hybrid_extensions.cuts.attempt import GivenUp, UnderWay
from hybrid_extensions.cuts.barrier import Barrier
from hybrid_extensions.cuts.table import Cut, TableVersion
from sources.errors import InputError, UnavailableError
from tests.hybrid_extensions.cdc.tables.test_template import template

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CUT = Cut(4, "0-1-7", NOON, {"public.orders": TableVersion("lake/orders", 12)})
UNDER_WAY = UnderWay(
    number=4,
    generations={"public.orders": "g1"},
    barrier=Barrier(number=1, is_open=True, until_ms=1),
    mark=Mark("7", "0-1-7", 7, NOON),
    ends={},
)


def definitions(folder: Path, **more: Any) -> dg.Definitions:
    file = template(folder, **more)
    file.write(FoundTable("public.orders", {"id": "bigint"}, ["id"], []))
    return template_definitions(file)


@pytest.fixture
def sensor(tmp_path: Path) -> dg.SensorDefinition:
    made = definitions(tmp_path, cuts={"path": "cuts", "every": "60 s"})
    return made.resolve_sensor_def("shop_cuts")


def look(sensor: dg.SensorDefinition, cursor: str | None) -> dg.SensorResult:
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(found, dg.SensorResult)
    return found


def test_the_table_of_the_cuts_is_an_asset_of_the_group_if_it_is_declared(tmp_path: Path) -> None:
    key = dg.AssetKey(["shop", "cuts"])
    node = definitions(tmp_path, cuts={"path": "cuts"}).resolve_asset_graph().get(key)
    assert node.group_name == "shop"
    assert node.parent_keys == {dg.AssetKey(["shop_public_orders", "table"])}
    without = definitions(tmp_path)
    assert key not in without.resolve_asset_graph().get_all_asset_keys()
    assert not any(each.name == "shop_cuts" for each in without.sensors or [])


def test_an_attempt_is_continued_look_by_look_and_the_cut_is_shown_once(
    sensor: dg.SensorDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [UNDER_WAY, UNDER_WAY, CUT]
    given = []

    def advance(_: object, attempt: UnderWay | None) -> object:
        given.append(attempt)
        return answers[len(given) - 1]

    monkeypatch.setattr(cuts_module, "advance", advance)
    first = look(sensor, None)
    assert "The next, at 0-1-7, waits for the connector" in str(first.skip_reason)
    second = look(sensor, first.cursor)
    third = look(sensor, second.cursor)
    assert given == [None, UNDER_WAY, UNDER_WAY]
    [event] = third.asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert (event.asset_key.path, event.metadata["cut"].value) == (["shop", "cuts"], 4)
    # The next one is not due yet: `every` counts from the begin of one to that of the next.
    fourth = look(sensor, third.cursor)
    assert "Last: cut 4 of 2026-01-31T12:00:00Z. Next: from" in str(fourth.skip_reason)
    begun, due = (json.loads(str(each.cursor)) for each in (first, third))
    assert due["next_ms"] == begun["begun_ms"] + 60_000
    assert len(given) == 3


def test_an_attempt_outlives_an_outage_and_another_one_begins_once_it_is_given_up(
    sensor: dg.SensorDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        message = "The broker is away."
        raise UnavailableError(message, "Start it.")

    monkeypatch.setattr(cuts_module, "advance", lambda *_: UNDER_WAY)
    first = look(sensor, None)
    monkeypatch.setattr(cuts_module, "advance", fail)
    second = look(sensor, first.cursor)
    assert "The broker is away." in str(second.skip_reason)
    assert second.cursor == first.cursor
    monkeypatch.setattr(cuts_module, "advance", lambda *_: GivenUp("a: too late."))
    third = look(sensor, second.cursor)
    assert "An attempt was given up: a: too late." in str(third.skip_reason)
    assert json.loads(str(third.cursor))["attempt"] is None


def test_before_its_runs_there_is_nothing_to_publish(sensor: dg.SensorDefinition) -> None:
    assert "has no state" in str(look(sensor, None).skip_reason)


def test_what_a_person_has_to_mend_fails_the_look_of_the_cuts_sensor(
    sensor: dg.SensorDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise InputError("No heartbeats.", "Set them.")

    monkeypatch.setattr(cuts_module, "advance", refuse)
    with pytest.raises(Exception, match="No heartbeats") as caught:
        look(sensor, None)
    assert "Set them" in str(caught.value)
