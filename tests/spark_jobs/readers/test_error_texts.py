"""What is kept of an error's text: what happened and why, not where in whose code."""

from __future__ import annotations

from spark_jobs.readers.spark_errors import without_traces

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
