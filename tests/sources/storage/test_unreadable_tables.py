"""A Delta table that can't be opened is an error with the way out that fits the cause."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from hybrid_extensions.comparison.compared_tables import open_target
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.folder import Folder
from sources.storage.tables.delta import unreadable_table
from spark_jobs.table.delta_table import open_table


def protocol(path: Path, **changes: Any) -> None:
    """Give a new table at a path another protocol."""
    write_deltalake(path, pa.table({"a": [1]}))
    log = next((path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] |= changes
    log.write_text("\n".join(map(json.dumps, actions)))


@dataclass
class Store:
    """Stands for a table's folder in a store, which answers whether it exists, or raises."""

    answer: HybridError | None = None
    url: str = "s3://lake/t"
    is_local: bool = False

    def exists(self, _: str) -> bool:
        if self.answer is not None:
            raise self.answer
        return True


# As delta-rs writes it for a terminal.
CUT_OFF = OSError("Kernel error -> Generic S3 error\n   \x1b[31m\u21b3\x1b[0m Server: 500\n")


def error_of(store: Store, error: Exception = CUT_OFF) -> HybridError:
    return unreadable_table("It can't be read", cast("Folder", store), error, "Restore it.")


def test_a_store_that_failed_is_unavailable_and_needs_no_backup() -> None:
    found = error_of(Store())
    assert isinstance(found, UnavailableError)
    assert found.transient
    assert found.message == "It can't be read: Kernel error -> Generic S3 error: Server: 500."
    assert found.hint.endswith("try again.")


@pytest.mark.parametrize("kind", [UnavailableError, InputError])
def test_what_a_store_says_by_itself_comes_first(kind: type[HybridError]) -> None:
    said = kind("s3://lake/t does not answer.", "Start it.")
    with pytest.raises(kind) as raised:
        error_of(Store(said), DeltaError("anything"))
    assert raised.value is said


@pytest.mark.parametrize("opened", [open_target, open_table])
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"readerFeatures": ["ofTheFuture"], "writerFeatures": ["ofTheFuture"]}, "ofTheFuture"),
        ({"readerFeatures": ["catalogManaged"], "writerFeatures": ["catalogManaged"]}, None),
        ({"minReaderVersion": 9, "minWriterVersion": 9}, "reader version 9"),
    ],
)
def test_a_feature_that_is_not_known_is_named_and_needs_no_backup(
    tmp_path: Path, changes: dict[str, Any], name: str | None, opened: Any
) -> None:
    protocol(tmp_path, **{"minReaderVersion": 3, "minWriterVersion": 7, **changes})
    with pytest.raises(InputError) as refused:
        opened(Folder(tmp_path))
    assert f"The table uses {name or 'catalogManaged'}, which" in refused.value.hint
    assert "DROP FEATURE" in refused.value.hint
    assert "backup" not in refused.value.hint


def test_a_damaged_log_is_restored_and_no_stack_is_shown(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}))
    next((tmp_path / "_delta_log").glob("*.json")).write_text("{garbage")
    with pytest.raises(InputError, match="can't be read") as refused:
        open_target(Folder(tmp_path))
    assert "backup" in refused.value.hint
    assert "<unknown>" not in refused.value.message
