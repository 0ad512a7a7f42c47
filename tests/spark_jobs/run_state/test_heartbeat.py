"""What a heartbeat says is shown on pages, whoever has written it into the state."""

from __future__ import annotations

import pytest

from spark_jobs.run_state.heartbeat import Heartbeat


def page_of(url: str) -> str | None:
    """The address that a page links to, if a heartbeat names one."""
    written = Heartbeat(
        launch_id="a", pid=1, host="here", source="inbox", phase="unbounded", state="running",
        at_ms=0,
    ).model_dump()  # fmt: skip
    return Heartbeat.model_validate({**written, "ui_url": url}).ui_url


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "http://here) [now](http://there", "file:///etc/passwd", ""]
)
def test_what_is_no_address_of_a_web_page_is_not_linked_to(url: str) -> None:
    assert page_of(url) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:4040", "https://spark.example/ui?app=1"])
def test_the_page_of_spark_is(url: str) -> None:
    assert page_of(url) == url
