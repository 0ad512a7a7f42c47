"""The user whom a proxy has authenticated is on the run, whatever a client writes there."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from hybrid_extensions.servers.process import HOST, end, free_ports, last_lines, spawn
from orchestration.attribution import acting_user
from sources.errors import InputError
from tests.services.processes import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240
DEFINITIONS = """
import dagster as dg
from orchestration.attribution import acting_user

@dg.op
def act(context: dg.OpExecutionContext) -> None:
    context.log.info(f"acting: {acting_user(context.run_tags, None)}")

@dg.job(executor_def=dg.in_process_executor)
def work():
    act()

defs = dg.Definitions(jobs=[work])
"""
COORDINATOR = """
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator:
  module: orchestration.attribution
  class: UserRunCoordinator
  config: {header: X-Remote-User, dequeue_interval_seconds: 1}
"""
LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
Launch = Callable[[dict[str, str], dict[str, str]], str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dagster")
    (made / "dagster.yaml").write_text(COORDINATOR)
    (made / "work.py").write_text(DEFINITIONS)
    return made


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as found:
        yield found


@pytest.fixture(scope="module")
def launch(home: Path, instance: dg.DagsterInstance) -> Iterator[Launch]:
    """Dagster's web server and its daemon; launches a run with headers and tags of the client."""
    [port] = free_ports(1)
    words = ["env", "-C", str(ROOT), f"DAGSTER_HOME={home}", f"PYTHONPATH={ROOT}"]
    programs = Path(sys.executable).parent
    file = ["-f", str(home / "work.py")]
    log = home / "server.log"
    with ExitStack() as cleanup:
        for command in (
            [str(programs / "dagster-webserver"), *file, "-h", HOST, "-p", str(port)],
            [str(programs / "dagster-daemon"), "run", *file],
        ):
            cleanup.callback(end, spawn([*words, *command], log))
        url = f"http://{HOST}:{port}"

        def is_up() -> bool:
            try:
                return bool(urllib.request.urlopen(f"{url}/server_info", timeout=5).status == 200)
            except (urllib.error.URLError, OSError):
                return False

        wait_for(is_up, f"Dagster's web server: {last_lines(log.read_bytes())}", PATIENCE_S)

        def post(headers: dict[str, str], tags: dict[str, str]) -> str:
            selector = {
                "repositoryLocationName": "work.py",
                "repositoryName": "__repository__",
                "jobName": "work",
            }
            shown = [{"key": key, "value": value} for key, value in tags.items()]
            params = {"selector": selector, "executionMetadata": {"tags": shown}}
            query = json.dumps({"query": LAUNCH, "variables": {"params": params}}).encode()
            request = urllib.request.Request(
                f"{url}/graphql", query, {"Content-Type": "application/json", **headers}
            )
            answer = json.load(urllib.request.urlopen(request, timeout=60))
            return str(answer["data"]["launchRun"]["run"]["runId"])

        yield post


def tags_of(instance: dg.DagsterInstance, run_id: str) -> dict[str, str]:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return dict(run.tags)


@pytest.mark.slow
class TestWebServer:
    def test_the_user_of_the_header_is_on_the_run_and_the_daemon_runs_it(
        self, launch: Launch, instance: dg.DagsterInstance
    ) -> None:
        run_id = launch({"x-remote-user": "ada@example.com"}, {"team": "a"})
        tags = tags_of(instance, run_id)
        assert (tags["user"], tags["team"]) == ("ada@example.com", "a")

        def has_ended() -> bool:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.is_finished

        wait_for(has_ended, "the run", PATIENCE_S)
        run = instance.get_run_by_id(run_id)
        assert run is not None
        assert run.is_success
        told = [record.user_message for record in instance.all_logs(run_id)]
        assert "acting: ada@example.com" in told

    def test_a_name_that_a_client_writes_itself_does_not_count(
        self, launch: Launch, instance: dg.DagsterInstance
    ) -> None:
        forged = {"user": "eve"}
        assert tags_of(instance, launch({"X-Remote-User": "bob"}, forged))["user"] == "bob"
        assert tags_of(instance, launch({}, forged))["user"] == ""
        # Another header than the one in dagster.yaml.
        assert "user" not in tags_of(instance, launch({"X-Forwarded-User": "eve"}, {}))


@pytest.mark.parametrize(
    ("tags", "given", "acts"),
    [
        ({"user": "ada"}, None, "ada"),
        ({"user": "ada"}, " ada ", "ada"),
        ({}, " bob ", "bob"),
        ({"user": ""}, "bob", "bob"),
        ({}, None, ""),
    ],
)
def test_the_authenticated_user_acts_else_the_name_that_was_typed(
    tags: dict[str, str], given: str | None, acts: str
) -> None:
    assert acting_user(tags, given) == acts


def test_a_typed_name_that_is_not_the_authenticated_one_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        acting_user({"user": "ada"}, "bob")
    assert "`bob` was given, but the run was launched by `ada`" in refused.value.message
    assert "Leave the name empty" in refused.value.hint
