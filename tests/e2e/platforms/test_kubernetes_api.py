"""The launcher of Kubernetes against a real API server, without nodes: pods never start there.

Where the programs are is said by two variables, as nobody packages them: docs/deploy.md has how to
get them. Without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources.config.loader import LoadedPipeline
from sources.errors import UnavailableError
from spark_jobs.launch import driver_state
from spark_jobs.launch.launch_record import Launch, last_launch
from spark_jobs.launch.run_control import stop
from spark_jobs.launch.runs import find_or_launch, find_run, last_driver, why_ended
from spark_jobs.run_state.driver_lock import is_launched
from tests.hybrid_extensions.clusters.recorded_answers import container
from tests.services.kubernetes_server import kubernetes_api, programs
from tests.services.processes import wait_for
from tests.spark_jobs.launch.launch_case import pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedPipeline]:
    found = programs()
    monkeypatch.setattr(driver_state, "ASK_AGAIN_S", 0.0)
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    with kubernetes_api(folder, *found) as (address, config):
        monkeypatch.setenv("KUBECONFIG", str(config))
        conf = {"spark.kubernetes.container.image": "registry.example.com/hybrid:1"}
        made = pipeline(tmp_path, {"master": f"k8s://{address}", "conf": conf})
        made.open_generation(create=True)
        yield made


def kubectl(*words: str) -> str:
    return subprocess.run(
        ["kubectl", *words], check=True, capture_output=True, text=True, env=os.environ
    ).stdout


def pods() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return found


def launched(loaded: LoadedPipeline) -> Launch:
    """A pod that a real ``spark-submit`` has made."""
    generation = loaded.require_generation()
    find_or_launch(loaded, generation, ["history"], {})
    # The pod is there before `spark-submit` has ended, and until then the launch is not over.
    wait_for(lambda: not is_launched(generation), "the end of spark-submit", 240)
    made = last_launch(generation)
    assert made is not None
    return made


def test_a_pod_is_made_once_found_again_and_deleted(loaded: LoadedPipeline) -> None:
    generation = loaded.require_generation()
    launch = launched(loaded)
    (pod,) = pods()
    assert pod["metadata"]["name"] == launch.application
    assert pod["metadata"]["labels"]["spark-role"] == "driver"
    arguments = pod["spec"]["containers"][0]["args"]
    assert arguments[-6:-2] == ["--source", "history", "--launch-id", launch.launch_id]
    driver = last_driver(generation)
    assert driver is not None
    assert driver.status().state == "waiting"
    # Whoever comes later finds it, and starts none.
    assert find_run(generation, "history") is not None
    find_or_launch(loaded, generation, ["history"], {})
    assert last_launch(generation) == launch
    assert len(pods()) == 1
    assert stop(generation, "history")
    assert pods() == []
    assert find_run(generation, "history") is None
    assert why_ended(generation, "history") == f"and Kubernetes has no pod {launch.application}"


def test_a_pod_that_failed_is_an_end_with_its_reason(loaded: LoadedPipeline) -> None:
    generation = loaded.require_generation()
    launch = launched(loaded)
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    status = container("terminated", **ended)
    # What a node would report.
    status[0] |= {"image": "registry.example.com/hybrid:1", "imageID": ""}
    patch = json.dumps({"status": {"phase": "Failed", "containerStatuses": status}})
    kubectl("patch", "pod", launch.application, "--subresource", "status", "-p", patch)
    why = why_ended(generation, "history")
    assert why is not None
    assert why.startswith(f"as Failed on Kubernetes (pod {launch.application}): OOMKilled")
    assert "raise `spark.driver.memoryOverhead`" in why
    # It makes way for a launch of its own.
    find_or_launch(loaded, generation, ["history"], {})
    wait_for(lambda: len(pods()) == 2, "the next pod", 240)


def test_a_login_that_is_refused_is_not_an_end(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    generation = loaded.require_generation()
    launched(loaded)
    config = Path(os.environ["KUBECONFIG"])
    refused = tmp_path / "refused"
    refused.write_text(config.read_text().replace("only-for-tests", "wrong"))
    monkeypatch.setenv("KUBECONFIG", str(refused))
    driver = last_driver(generation)
    assert driver is not None
    assert driver.status().state == "unknown"
    assert "logged in" in driver.status().reason
    with pytest.raises(UnavailableError, match=r"unknown whether .* Nothing was started"):
        driver.require_known()
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert len(pods()) == 1
