"""History in HDFS: a client without a JVM plans and opens it, Spark's own reads Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hdfs_native import WriteOptions

pytest.importorskip("hybrid_extensions.hdfs", reason="it reads HDFS")

from hybrid_extensions.hdfs.files import connect
from sources.storage.settings import HdfsSettings
from tests.e2e.case import Case, as_json, run_through, wrong
from tests.services.hdfs_server import write_conf

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

RPC = "dfs.namenode.rpc-address"
LAKE = {
    "dfs.nameservices": "lake",
    "dfs.ha.namenodes.lake": "a",
    "dfs.client.failover.proxy.provider.lake": (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    ),
}


def test_parquet_and_json_in_hdfs_then_the_topic(
    tmp_path: Path, servers: str, namenode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a machine of a cluster, where HDFS is the default: the target is on this disk still.
    (tmp_path / "conf").mkdir()
    write_conf(tmp_path / "conf" / "core-site.xml", {"fs.defaultFS": f"hdfs://{namenode}"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    store = connect(namenode, HdfsSettings())

    def put(name: str, content: bytes) -> None:
        with store.create(f"/history/{name}", WriteOptions(create_parent=True)) as file:
            file.write(content)

    case = Case(tmp_path, servers)
    case.write_history(range(600), files=2)
    for at, file in enumerate(sorted((tmp_path / "in").iterdir())):
        put(f"events/day=2024-01-0{at + 1}/a b+%20{file.name}", file.read_bytes())
        file.unlink()
    lines = [f"{as_json(n)}\n" for n in range(600, 1000)]
    put("late/x.json", "".join(lines[:250]).encode())
    put("late/y.json.gz", gzip.compress("".join(lines[250:]).encode()))
    case.produce(range(900, 1200))

    def on_hdfs(document: dict) -> None:  # type: ignore[type-arg]
        document["hdfs"] = {"namenode": "lake", "conf": LAKE | {f"{RPC}.lake.a": namenode}}
        history, topic = document["sources"]
        history["path"] = "hdfs:///history/events/**/*.parquet"
        schema = {"id": "bigint", "at": "timestamp", "v": "double"}
        late = {"name": "late", "type": "files", "format": "json", "schema": schema}
        path = f"hdfs://{namenode}/history/late"
        document["sources"] = [history, {**late, "path": path}, topic]

    loaded = case.pipeline(on_hdfs)
    report = run_through(loaded)
    assert (report.expected, wrong(report)) == (1200, {})
    assert [status.path for status in store.list_status("/")] == ["/history"]
