"""History in an object store: boto3 lists it, S3A and Arrow read it, on a real server."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.e2e.case import Case, as_json, run_through, wrong
from tests.services.s3_server import LOGIN, client, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_parquet_and_json_in_a_bucket_then_the_topic(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    with s3_server() as endpoint:
        store = client(endpoint)
        store.create_bucket(Bucket="history")
        case = Case(tmp_path, servers)
        case.write_history(range(600))
        for at, file in enumerate(sorted((tmp_path / "in").iterdir())):
            key = f"events/day=2024-01-0{at + 1}/a b+{file.name}"
            store.upload_file(str(file), "history", key)
            file.unlink()
        lines = "".join(f"{as_json(n)}\n" for n in range(600, 1000)).encode()
        store.put_object(Bucket="history", Key="late/x.json.gz", Body=gzip.compress(lines))
        case.produce(range(900, 1200))
        files = "s3://history"

        def on_s3(document: dict) -> None:  # type: ignore[type-arg]
            document["s3"] = {"endpoint": endpoint}
            history, topic = document["sources"]
            history["path"] = f"{files}/events/**/*.parquet"
            schema = {"id": "bigint", "at": "timestamp", "v": "double"}
            late = {"name": "late", "type": "files", "format": "json", "schema": schema}
            document["sources"] = [history, {**late, "path": f"{files}/late"}, topic]

        loaded = case.pipeline(on_s3)
        report = run_through(loaded)
        assert (report.expected, wrong(report)) == (1200, {})
    kept = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert not any(LOGIN["AWS_SECRET_ACCESS_KEY"].encode() in content for content in kept)
