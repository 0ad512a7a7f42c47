"""What the tools of clusters print, as they printed it.

``yarn``: by a resource manager and a node manager of Hadoop 3.5.0, asked after real applications of
Spark 4.2.1; but for the driver that was killed for its memory, whose diagnostics are put together
from Hadoop's own formats (``ContainersMonitorImpl``, ``RMAppAttemptImpl``). ``kubectl`` 1.32: its
complaints are its own, its pods are documents of the API reference.
"""

from __future__ import annotations

import json
from typing import Any

APPLICATION = "application_1795286155490_0002"
CONNECTION_REFUSED = (
    "Call From vm/127.0.0.1 to localhost:8032 failed on connection exception: "
    "java.net.ConnectException: Connection refused; For more details see:  "
    "http://wiki.apache.org/hadoop/ConnectionRefused"
)
SUBMITTED = f"""\
26/11/21 18:39:10 INFO Client: Uploading resource file:/jobs/job.py -> hdfs://nn/user/etl/.sparkStaging/{APPLICATION}/job.py
26/11/21 18:39:11 INFO Client: Submitting application {APPLICATION} to ResourceManager
26/11/21 18:39:12 INFO YarnClientImpl: Submitted application {APPLICATION}
26/11/21 18:39:12 INFO Client: Application report for {APPLICATION} (state: ACCEPTED)
"""
SUBMITTING = "\n".join(SUBMITTED.splitlines()[:2])
UNKNOWN_APPLICATION = (
    f"Application with id '{APPLICATION}' doesn't exist in RM or Timeline Server.\n"
)
KILLING = f"Killing application {APPLICATION}\n"
_LIST_HEAD = (
    "                Application-Id\t    Application-Name\t    Application-Type\t      User\t"
    "     Queue\t             State\t       Final-State\t       Progress\t"
    "                       Tracking-URL\n"
)
_STATES = "[NEW, NEW_SAVING, SUBMITTED, ACCEPTED, RUNNING, FINISHED, FAILED, KILLED]"


def listing(tag: str, *applications: str) -> str:
    """``yarn application -list -appTags <tag> -appStates ALL``."""
    head = (
        f"Total number of applications (application-types: [], states: {_STATES} "
        f"and tags: [{tag}]):{len(applications)}\n"
    )
    rows = [
        f"{each}\t       hybrid orders\t               SPARK\t      root\t   default\t"
        "           RUNNING\t         UNDEFINED\t            10%\t"
        "             http://192.0.2.2:43859\n"
        for each in applications
    ]
    return "".join([head, _LIST_HEAD, *rows])


def report(state: str, final: str, diagnostics: str = "") -> str:
    """``yarn application -status <id>``."""
    return f"""\
Application Report : 
\tApplication-Id : {APPLICATION}
\tApplication-Name : hybrid orders
\tApplication-Type : SPARK
\tUser : root
\tQueue : default
\tApplication Priority : 0
\tStart-Time : 1795286351947
\tFinish-Time : 1795286396797
\tProgress : 100%
\tState : {state}
\tFinal-State : {final}
\tTracking-URL : http://localhost:8088/cluster/app/{APPLICATION}
\tRPC Port : -1
\tAM Host : N/A
\tAggregate Resource Allocation : 50241 MB-seconds, 48 vcore-seconds
\tAggregate Resource Preempted : 0 MB-seconds, 0 vcore-seconds
\tLog Aggregation Status : SUCCEEDED
\tDiagnostics : {diagnostics}
\tUnmanaged Application : false
\tApplication Node Label Expression : <Not set>
\tAM container Node Label Expression : <DEFAULT_PARTITION>
\tTimeoutType : LIFETIME\tExpiryTime : UNLIMITED\tRemainingTime : -1seconds

"""  # noqa: W291 - as Hadoop prints it


KILLED_BY_USER = f"Application {APPLICATION} was killed by user root at 127.0.0.1"
KILLED_FOR_MEMORY = """\
Application application_1795286155490_0002 failed 1 times due to AM Container for \
appattempt_1795286155490_0002_000001 exited with  exitCode: -104
Failing this attempt.Diagnostics: [2026-11-21 18:40:12.394]Container \
[pid=24774,containerID=container_1795286155490_0002_01_000001] is running 343244800B beyond the \
'PHYSICAL' memory limit. Current usage: 1.3 GB of 1 GB physical memory used; 4.0 GB of 2.1 GB \
virtual memory used. Killing container.
Dump of the process-tree for container_1795286155490_0002_01_000001 :
\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) \
VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE
\t|- 24774 24772 24774 24774 (java) 450 78 7969161216 524011 java -Dlogin=s3cr3t
. Failing the application.\
"""
DRIVER_LOG = """\
Container: container_1795286155490_0002_01_000001 on localhost_46757
LogAggregationType: AGGREGATED
====================================================================
LogType:stderr
LogLastModifiedTime:Sat Nov 21 18:41:57 +0000 2026
LogLength:61
LogContents:
Traceback (most recent call last):
ModuleNotFoundError: No module named 'features'
End of LogType:stderr
***********************************************************************
"""

REFUSED = """\
E1121 18:37:47.688252    1250 memcache.go:265] "Unhandled Error" err="couldn't get current server \
API group list: Get \\"https://10.0.0.1:6443/api?timeout=10s\\": dial tcp 10.0.0.1:6443: connect: \
connection refused"
The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?
"""
FORBIDDEN = (
    'Error from server (Forbidden): pods "hybrid-a" is forbidden: User "x" cannot get resource '
    '"pods" in API group "" in the namespace "spark"\n'
)
NOT_LOGGED_IN = "error: You must be logged in to the server (Unauthorized)\n"


POD = "on Kubernetes (pod hybrid-a)"
EVICTED = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84Mi. Container "
    "spark-kubernetes-driver was using 2Gi, request is 1408Mi, has larger consumption of memory. "
)
INSUFFICIENT = "0/3 nodes are available: 3 Insufficient memory."
UNSCHEDULED = [
    {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": INSUFFICIENT,
    }
]


def pod(phase: str, **status: Any) -> str:
    """``kubectl get pod <name> --output json``."""
    metadata = {"name": "hybrid-a", "namespace": "spark", "labels": {"spark-role": "driver"}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never"},
        "status": {"phase": phase, **status},
    }
    return json.dumps(document, indent=4)


def container(state: str, **what: Any) -> list[dict[str, Any]]:
    """``containerStatuses`` of a driver's pod."""
    name = "spark-kubernetes-driver"
    return [{"name": name, "ready": False, "restartCount": 0, "state": {state: what}}]


FAILED_POD = pod("Failed", containerStatuses=container("terminated", exitCode=2, reason="Error"))
