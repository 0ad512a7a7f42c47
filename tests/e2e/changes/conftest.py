"""The shop of the examples, in a PostgreSQL whose changes are captured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.shop import make_shop
from services.connect import LocalConnect
from services.postgres import LocalPostgres
from tests.e2e.changes.cdc_case import CdcCase


@pytest.fixture
def case(
    tmp_path: Path, postgres: LocalPostgres, servers: str, connect: LocalConnect
) -> Iterator[CdcCase]:
    made = CdcCase(tmp_path, postgres, servers, connect)
    make_shop(made.dsn, 1000)
    yield made
    made.end()
