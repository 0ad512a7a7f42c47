"""What is taken out of a text, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.report.redaction import Redaction
from tests.orchestration.generations.generation_case import GenerationCase


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://user:pass@lake/in", "s3://lake/in"),
        ("postgresql://:p@ss@db/x", "postgresql://db/x"),
        ("brokers user:pass@a:9092, b:9092", "brokers a:9092, b:9092"),
        ("https://x/y?sig=abc&se=1 failed", "https://x/y?[hidden] failed"),
        ("host=db password = abc dbname=x", "host=db password = [hidden] dbname=x"),
        ("the value is swordfish", "the value is [hidden]"),
        ("abfss://lake@account.dfs.core.windows.net/in", None),
        ("a:9092,b:9092 at 12:30, 2024-01-01T00:00:00Z", None),
        ("is it complete? yes", None),
        ("SASL with PLAIN", None),
        ("the table /srv/shop/out", None),
    ],
)
def test_credentials_are_removed_and_nothing_else(
    tmp_path: Path, text: str, shown: str | None
) -> None:
    environment = {
        "DB_PASSWORD": "swordfish",
        "SASL_MECHANISM": "PLAIN",
        "API_TOKEN": "is",
        "PWD": "/srv/shop",
    }
    redacted = Redaction(GenerationCase(tmp_path).loaded.pipeline, environment)
    assert redacted(text) == (text if shown is None else shown)
