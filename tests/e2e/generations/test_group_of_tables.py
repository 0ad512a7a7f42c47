"""Two tables in a row are computed again by other transforms, and promoted together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import group_steps, promotion
from hybrid_extensions.generations.switch.group_switch import promote_group, roll_back_group
from orchestration.supervision.status import status_of
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.generations import begin
from sources.kept_definitions import declaration_of, keep_definition
from sources.serving import read_serving
from tests.e2e.case import wrong
from tests.e2e.in_session import run_history, run_live
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

DOUBLED = """


def doubled(df):
    return df.withColumn("v", df.v * 2)
"""


def values(table: Path) -> dict[int, float]:
    rows = DeltaTable(table).to_pyarrow_table()
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == len(rows)
    return found


def computed_again(
    case: TwoPipelines, spark: SparkSession
) -> tuple[LoadedPipeline, LoadedPipeline]:
    """Both tables in service, and their candidates, of which the second follows the first.

    700 rows.
    """
    # Before it is imported, as this process keeps the module.
    with (case.folder / "transforms.py").open("a") as code:
        code.write(DOUBLED)
    for number in (0, 300):
        case.write_history(range(number, number + 300))
    case.arrive(range(600, 700))
    for loaded in (case.first(), case.second(windows=False)):
        run_history(spark, loaded)
        run_live(spark, loaded)
        # As a launch does.
        keep_definition(loaded, loaded.require_generation())
    first = case.first(transform="transforms:doubled")
    assert begin(first).name == "g2"
    run_history(spark, first)
    run_live(spark, first)
    table = {"name": "rows", "type": "table", "pipeline": "first.yaml", "generation": "g2"}
    table["discovery_interval"] = "100 ms"
    second = case.second(windows=False, sources=[table])
    assert begin(second).name == "g2"
    run_history(spark, second)
    run_live(spark, second)
    return first, second


def test_a_candidate_that_follows_a_candidate_goes_on_in_its_target_after_a_kill(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = computed_again(case, spark)
    old, new = ({n: n / 2 * times for n in range(700)} for times in (1, 2))
    assert values(tmp_path / "copied") == old
    assert values(tmp_path / "copied.g2") == new

    # In the session of a test no run is supervised.
    monkeypatch.setattr(group_steps, "require_ready", lambda _: None)
    monkeypatch.setattr(group_steps, "start", lambda *_: None)
    monkeypatch.setattr(promotion, "require_ready", lambda _: None)
    with pytest.raises(StateError, match="g2 can't be promoted alone"):
        promotion.promote(second)
    # Rows that the second one has not read, and no run that does.
    case.arrive(range(700, 800))
    run_live(spark, first)
    with pytest.raises(StateError, match="live run of g2 is not running"):
        promote_group([second, first])
    assert values(tmp_path / "copied") == old
    run_live(spark, second)

    commit = TakeOver.commit

    def killed(*args: Any) -> None:
        commit(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TakeOver, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            promote_group([second, first])
    new = {n: n / 2 * 2 for n in range(800)}
    assert (values(tmp_path / "rows"), values(tmp_path / "copied")) == (new, old)
    assert promotion.finish(second)
    assert (values(tmp_path / "rows"), values(tmp_path / "copied")) == (new, new)
    assert [read_serving(each).generation for each in (first, second)] == ["g2", "g2"]
    assert not (tmp_path / "rows.g2" / "_delta_log").exists()

    # Both go on, and the second one reads what comes to the target of the first one.
    case.arrive(range(800, 900))
    run_live(spark, first)
    run_live(spark, second)
    assert values(tmp_path / "copied") == {n: n / 2 * 2 for n in range(900)}
    # As its file is read from now on: the table that `generation: g2` names is the target.
    second = load_pipeline(second.path)
    part = next(each for each in status_of(second).parts if each.name == "upstream")
    assert part.rows[0].cells[-1] == "up to date"
    report = audit(second)
    assert (wrong(report), report.ok, report.input_rows.sources) == ({}, True, {"rows": 900})

    # Both go back: each reads on where it was stopped, the second one over the promotion.
    roll_back_group([second, first])
    for each in (first, second):
        run_live(spark, declaration_of(each, "g1"))
    old = {n: n / 2 for n in range(900)}
    assert (values(tmp_path / "rows"), values(tmp_path / "copied")) == (old, old)
