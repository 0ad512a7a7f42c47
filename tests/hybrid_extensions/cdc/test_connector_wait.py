"""A captured table has caught up once its connector has read the database's log."""

from __future__ import annotations

import pytest

from hybrid_extensions.cdc import connector_wait
from hybrid_extensions.cdc.connector_wait import ConnectorWait
from orchestration.capture.slot_state import describe_unread
from orchestration.catch_up import wait_until_caught_up
from sources.planning.context import PipelineContext
from tests.orchestration.supervision.live_case import LiveCase
from tests.orchestration.test_backlog import case as case  # noqa: PLC0414 - a fixture
from tests.orchestration.test_backlog import starting


class CapturedLog:
    """The log of a captured database, by what its connector has not read at each look.

    Args:
        unread: Bytes; the last number counts from then on.
        confirmed_at: Look from which on the connector has confirmed all; never, if left out.
    """

    def __init__(self, *unread: int, confirmed_at: int | None = None) -> None:
        self._unread = unread
        self._confirmed_at = confirmed_at
        self.looks = 0

    @property
    def is_confirmed(self) -> bool:
        return self._confirmed_at is not None and self.looks >= self._confirmed_at

    def unread(self) -> int:
        self.looks += 1
        return self._unread[min(self.looks, len(self._unread)) - 1]

    def describe(self, unread: int) -> str:
        return describe_unread(unread)


def capture(log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_wait, "watched_slots", lambda _: [(log, None, "")])
    monkeypatch.setattr(connector_wait, "DatabaseLog", lambda *_: log)


def test_a_captured_table_has_caught_up_once_the_connector_has_read_the_databases_log(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturedLog(58_000_000, 58_000_000, 0, confirmed_at=3)
    capture(log, monkeypatch)
    said: list[tuple[int, str]] = []
    case.launch("a", offsets={"events.v1": {"0": 1000, "1": 1000}})
    with case.alive():
        context = PipelineContext(case.loaded, case.generation)
        wait_until_caught_up(context, lambda count, unit: said.append((count, unit)))
    behind = "records in the topic, and 58.0 MB in the database, not read by the connector"
    assert said == [(0, behind), (0, behind), (0, "records in the topic")]


def test_what_a_connector_has_received_but_not_confirmed_is_in_the_topic_once_that_rests(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(CapturedLog(0), monkeypatch)
    connector = ConnectorWait(PipelineContext(case.loaded, case.generation))
    monkeypatch.setattr(connector_wait, "SETTLED_S", 0)
    assert connector.is_behind(0, None), "the first look can't know"
    assert connector.is_behind(7, None), "records came"
    assert connector.is_behind(0, starting(case)), "they were committed"
    assert not connector.is_behind(0, starting(case))


def test_without_a_captured_database_no_connector_is_waited_for(case: LiveCase) -> None:
    connector = ConnectorWait(PipelineContext(case.loaded, case.generation))
    assert (connector.is_behind(9, None), connector.text) == (False, "")
