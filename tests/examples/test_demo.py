"""What `make demo` asks for before it starts anything."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from examples import demo
from sources.errors import InputError


@pytest.mark.parametrize(
    ("servers", "open_lake", "sets"),
    [
        ("", None, ["spark", "broker"]),
        ("kafka:9092", None, ["spark"]),
        ("", lambda: "s3://lake", ["spark", "broker", "s3"]),
    ],
)
def test_only_the_jvm_parts_that_it_uses_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: str, open_lake: Any, sets: list[str]
) -> None:
    asked: list[str] = []

    def resolve_sets(names: Iterable[str], _: Any) -> None:
        asked.extend(names)
        message = "no network"
        raise InputError(message, "Connect the machine.")

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    monkeypatch.setattr(demo, "resolve_sets", resolve_sets)
    with ExitStack() as cleanup, pytest.raises(InputError, match="no network"):
        demo.prepare(tmp_path / "demo", demo.Stages(), cleanup, open_lake)
    assert asked == sets
