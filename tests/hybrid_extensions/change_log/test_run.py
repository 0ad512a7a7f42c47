"""The run of a log before its first attempt: what it refuses, it refuses with a way out."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hybrid_extensions.change_log import run as run_module
from hybrid_extensions.change_log.declare import LoadedLog, LogDeclaration
from hybrid_extensions.change_log.run import run
from sources.errors import InputError
from sources.storage.folder import Folder

CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "table.include.list": "public.orders",
}


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "require_java", lambda: None)


def serve(folder: Path, listen: str) -> None:
    declared = LogDeclaration(path="log", connector=CONNECTOR, listen=listen)
    run(LoadedLog(declared, Folder(folder / "log")), print)


def test_an_address_that_another_process_listens_at_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        reason = f"can't be served at {listen}: Address already in use"
        # The lease is free again after the first one.
        for _ in range(2):
            with pytest.raises(InputError, match=reason) as refused:
                serve(tmp_path, listen)
    assert "declare another host and port in `listen`" in refused.value.hint


@pytest.mark.parametrize("listen", ["192.0.2.1:9192", "127.0.0.1:70000"])
def test_an_address_that_this_machine_does_not_have_is_named(tmp_path: Path, listen: str) -> None:
    with pytest.raises(InputError, match=f"can't be served at {listen}: "):
        serve(tmp_path, listen)
