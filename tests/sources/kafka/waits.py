"""How long a client is told to wait for a broker, instead of how long it does."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient


def noted_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that requests for metadata may take, one after the other; filled as they are made."""
    found: list[float] = []
    asked = AdminClient.list_topics

    def noted(self: AdminClient, *arguments: Any, timeout: float, **options: Any) -> Any:
        found.append(timeout)
        return asked(self, *arguments, timeout=timeout, **options)

    monkeypatch.setattr(AdminClient, "list_topics", noted)
    return found
