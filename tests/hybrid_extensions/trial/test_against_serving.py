"""When a sample can be compared with the table that serves, and what is said when it can't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from hybrid_extensions.trial import run
from hybrid_extensions.trial.against_serving import SAMPLE, compare_with_serving
from hybrid_extensions.trial.sample_pipeline import SampleOptions, declare_sample, sample_of
from orchestration.chain import ChainRun, Outcome, steps_of
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.transform_analysis import OutputColumn, TransformAnalysis, keep_analysis
from tests.e2e.case import TRANSFORMS, moment
from tests.e2e.records.test_sample import is_sampled
from tests.minimal import minimal_pipeline

IDS = range(100)
SAMPLED = [n for n in IDS if is_sampled(str(n), 0.3)]


def table(ids: Sequence[int], **columns: Any) -> pa.Table:
    times = pa.array([moment(n) for n in ids], pa.timestamp("us", "UTC"))
    halves = pa.array([n / 2 for n in ids], pa.float64())
    named = {"id": pa.array(ids, pa.int64()), "at": times, "v": halves, **columns}
    return pa.table(named)


def declared(
    folder: Path, sink: dict[str, Any] | None = None, **more: dict[str, Any]
) -> LoadedPipeline:
    """A pipeline over one file, with nothing computed yet."""
    (folder / "transforms.py").write_text(TRANSFORMS)
    (folder / "in").mkdir()
    pq.write_table(table(IDS), folder / "in" / "0.parquet")
    source = {"name": "history", "type": "files", "path": "in/*", "format": "parquet"}
    return minimal_pipeline(
        folder,
        source,
        name="events",
        key=["id"],
        sink={"path": "out", "mode": "append", "key": ["id"], **(sink or {})},
        **more,
    )


def compared(
    folder: Path,
    made: pa.Table,
    serving: pa.Table | None,
    *,
    sink: dict[str, Any] | None = None,
    stateful: bool = False,
    passed_on: Sequence[str] = ("id", "at", "v"),
    **options: Any,
) -> Any:
    """Compare as if the sample had been read already."""
    loaded = declared(folder, sink=sink)
    sample = sample_of(loaded, SampleOptions(share=0.3, **options))
    scratch = folder / "scratch"
    scratch.mkdir()
    side = declare_sample(loaded, sample, scratch, scratch / "table")
    write_deltalake(side.target.url, made)
    if serving is not None:
        write_deltalake(loaded.target.url, serving)
    generation = side.open_generation(create=True)
    assert generation is not None
    columns = [
        OutputColumn(
            name=name, type="bigint", nullable=True, inputs=[name] if name in passed_on else None
        )
        for name in made.column_names
    ]
    kept = ["count by id"] if stateful else []
    keep_analysis(generation, TransformAnalysis(digest="", columns=columns, stateful=kept))
    return compare_with_serving(loaded, side, sample)


def test_rows_of_the_same_keys_are_compared(tmp_path: Path) -> None:
    sampled = table(SAMPLED).set_column(2, "v", pa.array([-1.0, *(n / 2 for n in SAMPLED[1:])]))
    found, reason = compared(tmp_path, sampled, table(IDS, old=[0] * 100))
    assert reason is None
    assert found.rows == {"g1": len(SAMPLED), SAMPLE: len(SAMPLED)}
    assert (found.missing, found.added, found.changed) == (0, 0, 1)
    assert found.columns_missing == ["old"]


def test_a_range_of_time_limits_both(tmp_path: Path) -> None:
    since = moment(50)
    later = [n for n in SAMPLED if n >= 50]
    found, _ = compared(tmp_path, table(later), table(IDS), since=since)
    assert (found.is_same, found.rows_now) == (True, len(later))


MERGED = {"mode": "merge", "key": ["id"]}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"serving": None}, "No table of the pipeline serves yet"),
        ({"serving": table([])}, "that of g1, has no rows yet"),
        ({"sink": MERGED, "by": ("at",)}, "made of rows with different values of `at`"),
        ({"passed_on": ["at", "v"]}, "does not pass on column `id`"),
        ({"stateful": True, "sink": {"key": ["at"]}}, "keeps state, and `id` is not in `sink.key`"),
        ({"stateful": True, "since": moment(5)}, "`--since` and `--until` leave out rows"),
        ({"sink": MERGED, "until": moment(50)}, "`--since` and `--until` leave out rows"),
        ({"since": moment(5), "passed_on": ["id"]}, "does not pass on column `at`"),
        ({"serving": table(IDS).drop_columns("id")}, "The table of g1 has no column `id`"),
        ({"made": table([n + 1000 for n in SAMPLED])}, "changes values of id"),
        (
            {"made": table(SAMPLED).set_column(2, "v", pa.array(["low"] * len(SAMPLED)))},
            "The rows of the two tables can't be compared: Conversion Error",
        ),
    ],
)
def test_what_would_mean_nothing_is_not_compared(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    given = {"made": table(SAMPLED), "serving": table(IDS), **options}
    comparison, why = compared(tmp_path, given.pop("made"), given.pop("serving"), **given)
    assert comparison is None
    assert reason in why


@pytest.mark.parametrize(
    ("sink", "made", "audit", "reason"),
    [
        ({}, table(SAMPLED, large=[True] * len(SAMPLED)), 'SELECT id, "at", v FROM input', "large"),
        (MERGED, table(SAMPLED), None, "but neither `audit` nor `sink.sequence`"),
    ],
)
def test_a_table_that_no_query_computes_is_shown_without_an_audit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: dict[str, Any],
    made: pa.Table,
    audit: str | None,
    reason: str,
) -> None:
    (tmp_path / "expected.sql").write_text(audit or "")
    more = {} if audit is None else {"audit": {"sql": "expected.sql"}}
    loaded = declared(tmp_path, sink, **more)
    monkeypatch.setattr(run, "run_step", as_if_run(made))
    found = run.try_sample(loaded, SampleOptions(share=0.3))
    assert (found.audit, found.outcome, found.rows) == (None, "unknown", len(SAMPLED))
    assert reason in (found.not_audited or "")
    assert found.to_dict()["ok"] is True


@pytest.mark.parametrize(
    ("query", "outcome", "reason"),
    [
        ("SELECT id, at, v FROM input", "passed", None),
        ("SELECT id, at, bround(v) AS v FROM input", "unknown", "run by DuckDB, fails"),
    ],
)
def test_a_sample_is_audited_by_the_query_of_its_transform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, outcome: str, reason: str | None
) -> None:
    (tmp_path / "events.sql").write_text(query)
    loaded = declared(tmp_path, MERGED, transform={"sql": "events.sql"})
    monkeypatch.setattr(run, "run_step", as_if_run(table(SAMPLED)))
    found = run.try_sample(loaded, SampleOptions(share=0.3))
    assert (found.outcome, found.not_audited is None) == (outcome, reason is None)
    assert (reason or "") in (found.not_audited or "")


def test_a_sample_without_rows_is_refused_with_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = declared(tmp_path)
    monkeypatch.setattr(run, "run_step", as_if_run(table([])))
    options = SampleOptions(share=0.00001, since=moment(5))
    message = r"makes no row of the sample: 0.001% of the values of id from 2024-01-01T00:05:00Z\."
    with pytest.raises(InputError, match=message) as caught:
        run.try_sample(loaded, options)
    assert "Raise `--keys`" in caught.value.hint


def as_if_run(made: pa.Table) -> Callable[[ChainRun, str], Outcome[None]]:
    """In place of a step: the last one leaves what the runs of a sample leave."""

    def step(chain: ChainRun, name: str) -> Outcome[None]:
        if name == steps_of(chain.loaded)[-1].name:
            write_deltalake(chain.loaded.target.url, made)
            assert chain.loaded.open_generation(create=True) is not None
        return Outcome(None, {}, "")

    return step
