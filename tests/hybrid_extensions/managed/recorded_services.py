"""A managed service on this machine: it answers with JSON as EMR Serverless and Databricks do.

The answers are documents of the services' API references; what EMR Serverless says of a failed run
is as printed in public reports. None was recorded from an account of this project.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

APPLICATION = "00fz2k6vjg3u7l25"
JOB_RUN = "00fz2kr8ok7q1h27"
RUN = 759600
TASK_RUN = 759601
MISSING_MODULE = "ModuleNotFoundError: No module named 'features'"
EMR_FAILED = (
    "Job failed, please check complete logs in configured logging destination. ExitCode: 1. Last "
    f"few exceptions: {MISSING_MODULE}..."
)
EMR_JOBS = f"/applications/{APPLICATION}/jobruns"
DASHBOARD = "https://p-2u7l25-00fz2k6vjg3u7l25.emrappui-prod.eu-central-1.amazonaws.com"


class Answer(NamedTuple):
    """What a request with this method and path is answered by; the first one that fits."""

    method: str
    path: str
    body: Any
    status: int = 200


class Asked(NamedTuple):
    method: str
    path: str
    query: str
    body: Any


class ManagedService(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []

    def says(self, *answers: Answer) -> None:
        self.answers = list(answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer_to(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        for answer in self.answers:
            if (answer.method, answer.path) == (asked.method, asked.path):
                if answer.status >= 500:
                    # It recovers.
                    self.answers.remove(answer)
                return answer
        return Answer(asked.method, asked.path, {"message": f"nobody taught it {asked}"}, 403)

    def bodies(self, path: str) -> list[Any]:
        return [each.body for each in self.asked if each.method == "POST" and each.path == path]


class _Handler(BaseHTTPRequestHandler):
    server: ManagedService

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        given = json.loads(body) if body else None
        answer = self.server.answer_to(Asked(self.command, path, query, given))
        said = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        if answer.status >= 400 and isinstance(answer.body, dict) and "Code" in answer.body:
            self.send_header("x-amzn-ErrorType", answer.body["Code"])
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """Say nothing."""


@contextmanager
def managed_service() -> Iterator[ManagedService]:
    with ManagedService() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _emr_run(state: str, details: str) -> dict[str, Any]:
    arn = f"arn:aws:emr-serverless:eu-central-1:123456789012:/applications/{APPLICATION}"
    return {
        "applicationId": APPLICATION,
        "arn": f"{arn}/jobruns/{JOB_RUN}",
        "createdBy": "arn:aws:iam::123456789012:user/etl",
        "createdAt": 1795286351.947,
        "updatedAt": 1795286396.797,
        "executionRole": "arn:aws:iam::123456789012:role/spark",
        "state": state,
        "stateDetails": details,
        "releaseLabel": "emr-spark-8.0.0",
    }


def emr_run(state: str, details: str = "") -> Answer:
    """``GetJobRun``."""
    run = {**_emr_run(state, details), "jobRunId": JOB_RUN, "jobDriver": {"sparkSubmit": {}}}
    return Answer("GET", f"{EMR_JOBS}/{JOB_RUN}", {"jobRun": run})


def emr_list(name: str | None) -> Answer:
    """``ListJobRuns``."""
    other = {**_emr_run("SUCCESS", ""), "id": "00aa", "name": "nightly"}
    runs = [other, *([{**_emr_run("RUNNING", ""), "id": JOB_RUN, "name": name}] if name else [])]
    return Answer("GET", EMR_JOBS, {"jobRuns": runs})


def emr_error(method: str, path: str, code: str, message: str, status: int) -> Answer:
    return Answer(method, path, {"Code": code, "message": message}, status)


EMR_STARTED = Answer("POST", EMR_JOBS, {"applicationId": APPLICATION, "jobRunId": JOB_RUN})
EMR_CANCELLED = Answer(
    "DELETE", f"{EMR_JOBS}/{JOB_RUN}", {"applicationId": APPLICATION, "jobRunId": JOB_RUN}
)
EMR_DASHBOARD = Answer("GET", f"{EMR_JOBS}/{JOB_RUN}/dashboard", {"url": DASHBOARD})
EMR_FORBIDDEN = emr_error(
    "GET",
    EMR_JOBS,
    "AccessDeniedException",
    "User: arn:aws:iam::123456789012:user/etl is not authorized to perform: "
    "emr-serverless:ListJobRuns",
    403,
)

_JOBS = "/api/2.2/jobs/runs"


def databricks_run(state: str, result: str | None = None, message: str = "") -> Answer:
    """``jobs/runs/get``."""
    phase = {"life_cycle_state": state, "state_message": message}
    if result is not None:
        phase["result_state"] = result
    task = {"run_id": TASK_RUN, "task_key": "driver", "state": phase}
    body = {"run_id": RUN, "run_name": "hybrid", "state": phase, "tasks": [task]}
    return Answer("GET", f"{_JOBS}/get", body)


def databricks_list(name: str | None) -> Answer:
    """``jobs/runs/list``."""
    other = {"run_id": 1, "run_name": "nightly", "run_type": "SUBMIT_RUN"}
    runs = [other, *([{**other, "run_id": RUN, "run_name": name}] if name else [])]
    return Answer("GET", f"{_JOBS}/list", {"runs": runs})


DATABRICKS_SUBMIT = f"{_JOBS}/submit"
DATABRICKS_STARTED = Answer("POST", DATABRICKS_SUBMIT, {"run_id": RUN})
DATABRICKS_CANCELLED = Answer("POST", f"{_JOBS}/cancel", {})
DATABRICKS_OUTPUT = Answer(
    "GET",
    f"{_JOBS}/get-output",
    {"error": MISSING_MODULE, "logs": f"reading events.yaml\n{MISSING_MODULE}\n"},
)
DATABRICKS_FORBIDDEN = Answer(
    "GET",
    f"{_JOBS}/list",
    {"error_code": "PERMISSION_DENIED", "message": "User etl does not have the permission"},
    403,
)
