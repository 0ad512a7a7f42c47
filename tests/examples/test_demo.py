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
    ("servers", "sets"), [("", ["spark", "broker"]), ("kafka:9092", ["spark"])]
)
def test_only_the_jvm_parts_that_it_uses_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: str, sets: list[str]
) -> None:
    asked: list[str] = []

    def resolve_sets(names: Iterable[str], _: Any) -> None:
        asked.extend(names)
        message = "no network"
        raise InputError(message)

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    monkeypatch.setattr(demo, "resolve_sets", resolve_sets)
    with ExitStack() as cleanup, pytest.raises(InputError, match="no network"):
        demo._prepare(tmp_path / "demo", demo.Stages(), cleanup)
    assert asked == sets
