"""A database of which neither slot nor connector is declared, and that does not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hybrid_extensions.cdc import silence_watch
from hybrid_extensions.mariadb.access import BINLOG_ACCESS
from hybrid_extensions.servers.process import free_ports
from orchestration.supervision import live_look as look_module
from orchestration.supervision.status import status
from sources.common.times import now_ms
from sources.config.source.file_source import FileSource
from tests.orchestration.supervision.live_case import LiveCase


def test_status_says_that_it_does_not_answer_and_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path, {"late_after": "10 min"})
    (port,) = free_ports(1)
    snapshot = {"dsn": f"mariadb://reader@127.0.0.1:{port}/shop"}
    source = {"name": "snapshot", "type": "files", "path": "s/*.parquet", "format": "parquet"}
    declared = FileSource.model_validate({**source, "snapshot": snapshot})
    monkeypatch.setattr(silence_watch, "snapshot_sources", lambda _: [declared])
    case.ask_for_it()
    begun_ms = now_ms()

    def look(later_s: int) -> tuple[str, str]:
        at_ms = begun_ms + later_s * 1000
        case.launch("one", at_ms=at_ms, advanced_at_ms=at_ms)
        monkeypatch.setattr(look_module, "now_ms", lambda: at_ms)
        live = status(case.loaded).live
        assert live is not None
        return live.health, live.reason

    with case.alive():
        for later_s, expected in ((0, "catching-up"), (600, "catching-up"), (601, "late")):
            health, reason = look(later_s)
            assert health == expected
            assert f"Connecting to the database 127.0.0.1:{port} failed" in reason
            assert ("This has been so for 10 min 1 s." in reason) == (expected == "late")
        (kept,) = tmp_path.rglob("slot-watch.json")
        assert json.loads(kept.read_text())["unknown_since_ms"] == begun_ms
        with monkeypatch.context() as patch:
            patch.setitem(vars(BINLOG_ACCESS), "ask_silence", lambda _: None)
            assert look(602)[0] == "healthy"
        assert look(603)[0] == "catching-up"
        assert json.loads(kept.read_text())["unknown_since_ms"] == begun_ms + 603_000
