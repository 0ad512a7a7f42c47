"""YARN on this machine: a resource manager and a node manager as processes of their own."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from hybrid_extensions.servers.process import HOST, end, free_ports, spawn
from spark_jobs.jvm.jars import obtain
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.spark_version import spark_home
from tests.services.hdfs_server import SERVER, write_conf
from tests.services.processes import wait_for

# The resource manager makes a certificate of its own. Later versions have ranges of versions.
_SERVER = replace(SERVER, packages=(*SERVER.packages, "org.bouncycastle:bcpkix-jdk15on:1.68"))
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_YARN = "org.apache.hadoop.yarn"
_RESOURCES = f"{_YARN}.server.resourcemanager.ResourceManager"
_NODE = f"{_YARN}.server.nodemanager.NodeManager"
_SCHEDULER = f"{_YARN}.server.resourcemanager.scheduler.fifo.FifoScheduler"
# Hadoop's own command of this name is a shell script around the same class.
_COMMAND = """#!/bin/sh
exec {java} -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp '{path}' \\
  org.apache.hadoop.yarn.client.cli.ApplicationCLI "$@"
"""


@contextmanager
def yarn_server(folder: Path) -> Iterator[dict[str, str]]:
    """Environment of a process that submits: YARN's configuration, and the command ``yarn``."""
    ports = free_ports(5)
    web = f"{HOST}:{ports[4]}"
    conf, own = folder / "conf", folder / "bin"
    conf.mkdir(parents=True)
    own.mkdir()
    names = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
    settings = {
        **{
            f"yarn.resourcemanager.{name}": f"{HOST}:{port}"
            for name, port in zip(names, ports, strict=False)
        },
        "yarn.resourcemanager.webapp.address": web,
        "yarn.resourcemanager.scheduler.class": _SCHEDULER,
        "yarn.nodemanager.hostname": HOST,
        **{
            f"yarn.nodemanager.{name}": f"{HOST}:0"
            for name in ("address", "localizer.address", "webapp.address")
        },
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.resource.memory-mb": "8192",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.delete.debug-delay-sec": "600",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.minimum-allocation-mb": "256",
    }
    write_conf(conf / "yarn-site.xml", settings)
    write_conf(conf / "core-site.xml", {"hadoop.tmp.dir": str(folder / "tmp")})
    jars = [str(jar) for jar in obtain("yarn-server", _SERVER)]
    path = ":".join([str(conf), *jars, str(spark_home() / "jars" / "*")])
    java = require_java()
    command = own / "yarn"
    command.write_text(_COMMAND.format(java=java, path=path))
    command.chmod(0o755)
    environment = {
        "HADOOP_CONF_DIR": str(conf),
        "YARN_CONF_DIR": str(conf),
        "JAVA_HOME": str(java.parents[1]),
        "PATH": f"{own}:{os.environ['PATH']}",
    }
    log = folder / "yarn.log"
    with ExitStack() as stack:
        for server in (_RESOURCES, _NODE):
            home = f"JAVA_HOME={environment['JAVA_HOME']}"
            process = spawn(["env", home, str(java), *_JVM, "-cp", path, server], log)
            stack.callback(end, process)
        wait_for(lambda: _has_a_node(f"http://{web}"), f"YARN ({log})", 90)
        yield environment


def _has_a_node(web: str) -> bool:
    try:
        with urllib.request.urlopen(f"{web}/ws/v1/cluster/metrics", timeout=5) as answer:
            found = json.load(answer)["clusterMetrics"]
    except (OSError, ValueError):
        return False
    return bool(found["activeNodes"] == 1)
