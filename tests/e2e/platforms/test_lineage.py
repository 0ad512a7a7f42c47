"""A chain with real drivers tells a catalog of data what it reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestration.chain import ChainRun, run_chain
from orchestration.operations import stopping
from tests.e2e.case import SMALL, Case
from tests.hybrid_extensions.lineage.receiver import receiving

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.analysis,
]


def test_each_step_is_reported_with_exact_inputs_and_the_version_of_the_table(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1500))

    def with_lineage(document: dict[str, Any]) -> None:
        document["lineage"] = {"namespace": "prod"}
        document["spark"] = {"driver_memory": "1g", "conf": SMALL}

    loaded = case.pipeline(with_lineage)
    name = loaded.pipeline.name
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        run_chain(ChainRun(loaded, rest_requested=True, until_caught_up=True))
        stopping.stop(loaded)
    assert receiver.told == [
        (f"{name}.plan", "START"),
        (f"{name}.plan", "COMPLETE"),
        (f"{name}.history", "START"),
        (f"{name}.history", "COMPLETE"),
        (f"{name}.live_handover", "START"),
        (f"{name}.live_handover", "COMPLETE"),
        (f"{name}.live", "START"),
        (f"{name}.live", "RUNNING"),
        (f"{name}.live", "COMPLETE"),
    ]
    receiver.require_valid()
    history = receiver.last(f"{name}.history", "COMPLETE")
    (files,) = history["inputs"]
    assert (files["namespace"], files["name"]) == ("file", str(tmp_path / "in"))
    assert files["inputFacets"]["inputStatistics"]["rowCount"] == 1000
    (table,) = history["outputs"]
    assert (table["namespace"], table["name"]) == ("file", str(loaded.target.url))
    assert {each["name"] for each in table["facets"]["schema"]["fields"]} >= {"id", "at", "v"}
    own = table["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert [each["field"] for each in own] == ["id"]
    live = receiver.last(f"{name}.live", "COMPLETE")
    (topic,) = live["inputs"]
    assert topic["namespace"] == f"kafka://{servers}"
    offsets = topic["inputFacets"]["hybrid_offsets"]
    (end,) = offsets["end"].values()
    assert sum(end.values()) == 1000
    versions = [
        int(each["outputs"][0]["facets"]["version"]["datasetVersion"]) for each in (history, live)
    ]
    assert versions[0] < versions[1]
