"""What becomes of the tables that a database has, without a database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hybrid_extensions.cdc.databases import kinds
from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.template import Template
from sources.errors import InputError

TABLES = [
    DatabaseTable("shop.orders", {"id": "bigint"}, ["id"], {}),
    DatabaseTable("shop.lines", {"id": "bigint"}, ["id"], {}),
]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    access = SimpleNamespace(find_tables=lambda *_: TABLES)
    monkeypatch.setattr(kinds, "access_to", lambda _: access)


def template(folder: Path, **overrides: Any) -> Template:
    path = folder / "shop.yaml"
    document = {
        "name": "shop",
        "database": {"dsn": "logged://reader@db/shop"},
        "tables": {"include": ["shop.*"], "overrides": overrides},
        "topic": "shop.{schema}.{table}",
        "changes": {"bootstrap_servers": "broker:9092"},
        "sink": {"path": "lake/{table}"},
        "state": "state",
    }
    path.write_text(yaml.safe_dump(document))
    return Template(path)


@pytest.mark.usefixtures("database")
def test_a_table_whose_pipeline_is_not_valid_holds_up_no_other(tmp_path: Path) -> None:
    made = template(tmp_path, **{"shop.lines": {"changes": {"trigger_interval": "never"}}})
    found = table_pipelines.find(made)
    assert found.added == ["shop.orders"]
    assert "trigger_interval" in found.refused["shop.lines"]
    assert made.tables() == ["shop.orders"]


@pytest.mark.usefixtures("database")
def test_a_file_that_is_valid_for_no_table_is_refused(tmp_path: Path) -> None:
    odd = {"changes": {"trigger_interval": "never"}}
    made = template(tmp_path, **{"shop.lines": odd, "shop.orders": odd})
    with pytest.raises(InputError, match="trigger_interval"):
        table_pipelines.find(made)
