"""HDFS on this machine: a namenode and a datanode as processes of their own."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from hybrid_extensions.servers.process import HOST, end, free_ports, last_lines, spawn
from spark_jobs.jvm.jar_sets import JarSet, excludes
from spark_jobs.jvm.jars import obtain
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.spark_version import installed_parts, spark_home
from tests.services.processes import wait_for

# All that it depends on is in PySpark's own jars, at the same version.
SERVER = JarSet(
    packages=(f"org.apache.hadoop:hadoop-client-minicluster:{installed_parts().hadoop}",),
    excludes=(*excludes("spark").split(","), "commons-logging:commons-logging"),
)
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_LIVE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """Address of the namenode, ``host:port``."""
    rpc, web = free_ports(2)
    address = f"{HOST}:{rpc}"
    conf = folder / "conf"
    conf.mkdir()
    write_conf(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{address}"})
    settings = {
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.namenode.http-address": f"{HOST}:{web}",
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.datanode.hostname": HOST,
        **{f"dfs.datanode.{what}": f"{HOST}:0" for what in ("address", "http.address")},
        "dfs.datanode.ipc.address": f"{HOST}:0",
        "dfs.replication": "1",
        # A page of a listing; the default of 1000 makes tests write thousands of files.
        "dfs.ls.limit": "100",
    }
    write_conf(conf / "hdfs-site.xml", settings)
    jars = [str(jar) for jar in obtain("hdfs-server", SERVER)]
    path = ":".join([str(conf), *jars, str(spark_home() / "jars" / "*")])
    launcher = [str(require_java()), *_JVM, "-cp", path]
    log = folder / "hdfs.log"
    formatting = spawn([*launcher, _NAMENODE, "-format", "-nonInteractive"], log)
    assert formatting.wait() == 0, last_lines(log.read_bytes())
    with ExitStack() as stack:
        for server in (_NAMENODE, _DATANODE):
            stack.callback(end, spawn([*launcher, server], log))
        wait_for(lambda: _has_a_datanode(f"http://{HOST}:{web}"), f"HDFS ({log})", 90)
        yield address


def write_conf(path: Path, settings: Mapping[str, str]) -> None:
    """A file as Hadoop's servers and clients read it."""
    properties = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{''.join(properties)}</configuration>")


def _has_a_datanode(web: str) -> bool:
    try:
        with urllib.request.urlopen(f"{web}{_LIVE}", timeout=5) as answer:
            (state,) = json.load(answer)["beans"]
    except (OSError, ValueError):
        return False
    return bool(state["NumLiveDataNodes"] == 1)
