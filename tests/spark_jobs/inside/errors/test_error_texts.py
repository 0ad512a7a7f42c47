"""What is kept of an error's text: what happened and why, not where in whose code."""

from __future__ import annotations

import socket

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from hybrid_extensions.servers.process import free_ports
from spark_jobs.inside.errors.error_reports import report_of, without_traces
from spark_jobs.inside.errors.java_causes import first_line

_TRACE = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/pipeline/shop.py", line 12, in clean
    return rows.price / 0
           ~~~~~~~~~~~^~~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:572)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 1 more
Driver stacktrace:
Caused by: java.lang.ArithmeticException: / by zero
"""


class Silent:
    """A Java exception without a message, as of a time limit."""

    def getMessage(self) -> None:  # noqa: N802 - Java's name
        return None

    def getClass(self) -> Silent:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return "java.util.concurrent.TimeoutException"


def test_an_exception_without_a_message_is_named_by_its_class_and_not_as_none() -> None:
    assert first_line(Silent()) == "TimeoutException"


def test_the_reason_is_read_without_the_traces() -> None:
    assert without_traces(_TRACE).splitlines() == [
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent:",
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):",
        "ZeroDivisionError: division by zero",
        "Caused by: java.lang.ArithmeticException: / by zero",
    ]


def test_a_text_of_many_lines_keeps_its_ends() -> None:
    found = without_traces("\n".join(f"line {n}" for n in range(150))).splitlines()
    assert (found[0], found[6], found[-1], len(found)) == ("line 0", "…", "line 149", 13)


def test_a_text_that_is_nothing_but_a_trace_is_kept() -> None:
    assert without_traces("\tat a.B.c(D.java:1)") == "\tat a.B.c(D.java:1)"


def test_a_jvm_that_was_killed_is_named_and_no_refused_connection() -> None:
    (port,) = free_ports(1)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    with pytest.raises((ConnectionError, Py4JError)) as gone:
        gateway.jvm.System.currentTimeMillis()
    report = report_of(gone.value)
    assert report.message.startswith("The Spark process (JVM) of this run was killed")
    assert "resumes after its last commit" in report.hint
    assert report.transient


def test_a_connection_of_the_users_code_that_is_refused_is_told_as_it_is() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionRefusedError) as refused:
        socket.create_connection(("127.0.0.1", port))
    assert "Connection refused" in report_of(refused.value).message
