"""A store that takes requests and says nothing is named soon, while a lease can still be kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybrid_extensions.s3 import files as s3
from hybrid_extensions.s3.documents import S3Documents
from sources.errors import UnavailableError
from sources.storage.settings import S3Settings
from spark_jobs.run_state.lease import TTL_S
from tests.services.network import Network
from tests.services.s3_server import LOGIN


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    # Behind it there is no server, as nothing arrives.
    with Network(1) as network:
        network.silence()
        yield f"http://127.0.0.1:{network.port}"


def test_a_silent_store_is_given_up_after_three_attempts_and_named(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = s3._SILENT_ATTEMPTS * s3._ANSWER_S
    assert limits <= TTL_S, "a lease is renewed by another connection before it is lost"
    assert limits + sum(2.0**attempt for attempt in range(s3._SILENT_ATTEMPTS - 1)) < 60
    monkeypatch.setattr(s3, "_ANSWER_S", 0.2)
    asked, ask_again = [], s3._ask_again

    def noted(attempts: int, **more: Any) -> float | None:
        asked.append(attempts)
        return ask_again(attempts=attempts, **more)

    monkeypatch.setattr(s3, "_ask_again", noted)
    documents = S3Documents(S3Settings(endpoint=silent))
    for work in (documents.read, documents.exists, lambda path: documents.put(path, b"{}")):
        with pytest.raises(UnavailableError, match=f"{silent}") as raised:
            work("s3://lake/state/plan.json")
        assert raised.value.transient
    assert asked == [1, 2, 3] * 3
