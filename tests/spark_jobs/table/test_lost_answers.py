"""Commits to a table in a store that has done a request whose answer is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from hybrid_extensions.s3.documents import S3Documents
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.tables.delta import delta_table
from spark_jobs.table.delta_table import commit_once
from tests.services.s3_server import LOGIN, STORES, client, s3_server, tell

pytestmark = pytest.mark.slow
ROWS = pa.table({"id": [1, 2]})
BATCH = Transaction("pipeline", 7)


@pytest.fixture(scope="module", params=STORES)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server(request.param) as running:
        for name, value in LOGIN.items():
            patch.setenv(name, value)
        client(running).create_bucket(Bucket="lake")
        yield running


@pytest.fixture
def folder(endpoint: str, request: pytest.FixtureRequest) -> Folder:
    made = Folder(
        f"s3://lake/{request.node.originalname}", S3Documents(S3Settings(endpoint=endpoint))
    )
    options = made.documents.delta_options
    DeltaTable.create(made.url, ROWS.schema, storage_options=options)
    return made


def append(folder: Folder, properties: CommitProperties) -> None:
    write_deltalake(delta_table(folder), ROWS, mode="append", commit_properties=properties)


def test_a_commit_that_the_store_has_done_is_no_conflict(endpoint: str, folder: Folder) -> None:
    tell(endpoint, "faults", **{"lose answer of": r"PUT .*_delta_log/\d+\.json"})
    commit_once(lambda properties: append(folder, properties), folder, BATCH)
    table = delta_table(folder)
    assert (table.version(), table.transaction_version("pipeline")) == (1, 7)
    assert table.to_pyarrow_table().num_rows == ROWS.num_rows


def test_the_same_transaction_of_another_writer_is_a_conflict(folder: Folder) -> None:
    def after_a_rival(properties: CommitProperties) -> None:
        table = delta_table(folder)
        append(folder, CommitProperties(app_transactions=[BATCH]))
        write_deltalake(table, ROWS, mode="append", commit_properties=properties)

    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        commit_once(after_a_rival, folder, BATCH)
    assert delta_table(folder).to_pyarrow_table().num_rows == ROWS.num_rows
