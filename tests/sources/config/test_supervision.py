"""Declaring supervision: sensible without a word, and no secret in the file."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.config.loader import load_pipeline
from sources.config.supervision import Restarts, Supervision
from sources.errors import InputError
from tests.sources.config.test_loader import write

SECRET = "T0P-s3cret"


def load(folder: Path, hook: str = "", **fields: Any) -> Supervision:
    path = write(folder, supervision=fields)
    return load_pipeline(path, {"TOPIC": "t", "HOOK": hook}).pipeline.supervision


def refusal(folder: Path, hook: str = "", **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, hook, **fields)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_pipeline_that_says_nothing_is_supervised(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert load_pipeline(path, {"TOPIC": "t"}).pipeline.supervision == Supervision()


def test_what_is_left_out_keeps_its_default(tmp_path: Path) -> None:
    found = load(tmp_path, lag=10, restarts={"limit": 2})
    assert (found.lag, found.restarts.limit) == (10, 2)
    assert found.restarts.backoff == Restarts().backoff
    assert found.stuck_after == timedelta(seconds=30)


def test_the_defaults_are_those_of_the_docs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    [block] = re.findall(r"^```yaml\n(supervision:\n.+?)```", page, re.MULTILINE | re.DOTALL)
    found = load_pipeline(write(tmp_path, **yaml.safe_load(block)), {"TOPIC": "t"})
    shown = found.pipeline.supervision.model_dump(exclude={"webhook"})
    assert shown == Supervision().model_dump(exclude={"webhook"})
    assert found.pipeline.supervision.webhook_url is None


def test_a_webhook_comes_from_the_environment(tmp_path: Path) -> None:
    found = load(tmp_path, f"https://hooks.example/{SECRET}", webhook="${HOOK}")
    assert found.webhook_url == f"https://hooks.example/{SECRET}"
    assert SECRET not in f"{found!r} {found.model_dump_json()}"
    assert load(tmp_path, "", webhook="${HOOK:-}").webhook_url is None


def test_a_webhook_in_the_file_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, webhook=f"https://hooks.example/{SECRET}")
    assert "`supervision.webhook` is written in plain text in the file." in text
    assert "${SUPERVISION_WEBHOOK}" in text


@pytest.mark.parametrize(
    "url", [SECRET, f"file:///{SECRET}", f"https://{SECRET} x", f"http://[{SECRET}", "https://"]
)
def test_a_webhook_that_is_no_url_is_refused_without_being_shown(tmp_path: Path, url: str) -> None:
    text = refusal(tmp_path, url, webhook="${HOOK}")
    assert "supervision: `webhook` is not a URL that starts with http:// or https://" in text


def test_a_limit_that_is_never_reached_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, restarts={"limit": 20})
    assert "supervision.restarts: `limit: 20` is never reached" in text
    assert "Lower `limit`" in text


@pytest.mark.parametrize(
    "fields",
    [{"limit": -1}, {"growth": 0.5}, {"backoff": "soon"}, {"loop": 0}],
)
def test_nonsense_is_refused_by_name(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert f"supervision.restarts.{next(iter(fields))}: " in refusal(tmp_path, restarts=fields)
