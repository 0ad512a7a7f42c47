"""Trial run: plan, both phases and the switch, audit, comparison with the serving table."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from hybrid_extensions.comparison.compare_tables import json_value
from hybrid_extensions.comparison.compared_tables import create_target_rows, open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, count_rows, open_database
from hybrid_extensions.generations.comparison.compare_generations import GenerationComparison
from hybrid_extensions.trial.against_serving import compare_with_serving
from hybrid_extensions.trial.sample_pipeline import SampleOptions, declare_sample, sample_of
from orchestration.chain import (
    ChainRun,
    Observer,
    RestOfSnapshotStep,
    SnapshotStep,
    run_step,
    steps_of,
)
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.report import AuditReport
from orchestration.operations import stopping
from sources.common.schema import names_and_types, normalize_schema
from sources.common.sql.sql_names import column_list
from sources.config.loader import LoadedPipeline
from sources.config.table.sampled_share import Sample
from sources.errors import InputError, leaving


@dataclass(frozen=True)
class SampleRun:
    """Result of a trial run.

    Attributes:
        pipeline: Name of the pipeline.
        sample: The sample that was read.
        read: Rows of the sample by name of the source; empty without an audit, which counts them.
        distinct: Rows of the sample in all sources, each key counted once; None without an audit.
        rows: Number of rows of the table.
        columns: Spark SQL types of the table's columns by name.
        examples: The first rows of the table, by ``sink.key``, as JSON values.
        audit: Comparison with an independent computation over the same sample; None if there is
            none.
        not_audited: Why there is no audit: a sentence; None if there is one.
        serving: Comparison with the rows of the same keys in the serving table; None if it would
            mean nothing.
        not_compared: Why it would mean nothing: a sentence; None if it was made.
        plan_warnings: Warnings of the plan.
        table: Folder of the table; None if it was removed.
        seconds: How long it all took.
    """

    pipeline: str
    sample: Sample
    read: dict[str, int]
    distinct: int | None
    rows: int
    columns: dict[str, str]
    examples: list[dict[str, Any]]
    audit: AuditReport | None
    not_audited: str | None
    serving: GenerationComparison | None
    not_compared: str | None
    plan_warnings: list[str]
    table: str | None
    seconds: float

    @property
    def outcome(self) -> Literal["passed", "failed", "unknown"]:
        """Outcome of the audit; ``unknown`` without an audit."""
        return "unknown" if self.audit is None else self.audit.outcome

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dictionary; ``ok`` unless the audit failed."""
        documents = {
            "sample": self.sample.model_dump(mode="json"),
            "audit": None if self.audit is None else self.audit.to_dict(),
            "serving": None if self.serving is None else self.serving.to_dict(),
        }
        ok = self.outcome != "failed"
        return {"ok": ok, "outcome": self.outcome, **asdict(self), **documents}


@leaving("Nothing of the pipeline was changed.")
def try_sample(
    loaded: LoadedPipeline,
    options: SampleOptions,
    observer: Observer | None = None,
    examples: int = 10,
) -> SampleRun:
    """Run a pipeline over a sample, as its file is now, and compare the result.

    Blocks until all is read, audited and compared. Files and topics are read as by the pipeline's
    own runs; topics up to their end. State and target of the pipeline are not changed. Those of the
    trial are removed again, whatever happens, except a table to be kept.

    Args:
        loaded: The pipeline.
        options: The sample, and where its table is kept.
        observer: Shows the progress; None for none.
        examples: Number of rows to return.

    Returns:
        The result. A failed audit raises nothing.

    Raises:
        InputError: The sample is not valid, no row is in it, the folder to keep the table in
            exists, or the files can't be read.
        HybridError: A step of the chain failed or was refused.
    """
    loaded.pipeline.require_one_chain("To try a transform on a sample")
    started = time.monotonic()
    sample = sample_of(loaded, options)
    _require_free(options.keep)
    with TemporaryDirectory(prefix="hybrid-try-") as scratch:
        folder = Path(scratch)
        table = folder / "table" if options.keep is None else options.keep.absolute()
        side = declare_sample(loaded, sample, folder, table)
        try:
            warnings = _run(side, observer or Observer())
            report, reason = _audited(side)
            found = _look_at(side, examples)
            _require_rows(loaded, sample, report, found)
            compared = compare_with_serving(loaded, side, sample)
        except BaseException:
            # Only a complete table is kept.
            shutil.rmtree(table, ignore_errors=True)
            raise
    return SampleRun(
        pipeline=loaded.pipeline.name,
        sample=sample,
        read={} if report is None else report.input_rows.sources,
        distinct=None if report is None else report.input_rows.distinct,
        rows=found.rows,
        columns=found.columns,
        examples=found.examples,
        audit=report,
        not_audited=reason,
        serving=compared.comparison,
        not_compared=compared.reason,
        plan_warnings=warnings,
        table=None if options.keep is None else str(table),
        seconds=time.monotonic() - started,
    )


def _require_free(keep: Path | None) -> None:
    if keep is not None and keep.exists():
        message = f"{keep} exists already, so the table of the sample is not written there."
        hint = "Name a folder under `--keep` that does not exist yet."
        raise InputError(message, hint, file=str(keep))


def _run(side: LoadedPipeline, observer: Observer) -> list[str]:
    """Run the chain of a sample until the stream has read all that is there; return warnings."""
    leaves = "Nothing of the pipeline was changed."
    run = ChainRun(side, observer, rest_requested=True, until_caught_up=True, leaves=leaves)
    warnings: list[str] = []
    try:
        for step in steps_of(side):
            # What is copied from a database, and into which files, is the pipeline's own affair.
            if not isinstance(step, SnapshotStep | RestOfSnapshotStep):
                outcome = run_step(run, step.name)
                warnings += outcome.document.get("warnings", [])
    finally:
        stopping.stop(side)
    return warnings


def _audited(side: LoadedPipeline) -> tuple[AuditReport | None, str | None]:
    """Return the audit of a sample, or why there is none."""
    try:
        return audit(side), None
    except InputError as error:
        # No query computes the table; or a transform that was just changed returns what it does
        # not compute yet, or what DuckDB can't compute.
        if error.fields.get("field") not in ("audit", "audit.sql", "transform.sql"):
            raise
        return None, error.message


class _Table(NamedTuple):
    """What the table of a sample holds.

    Attributes:
        rows: Number of rows.
        columns: Spark SQL types by name.
        examples: The first rows, by ``sink.key``, with values in the form that JSON has for them.
    """

    rows: int
    columns: dict[str, str]
    examples: list[dict[str, Any]]


def _look_at(side: LoadedPipeline, examples: int) -> _Table:
    table = open_target(side.target)
    assert table is not None  # the runs have created it
    schema = normalize_schema(pa.schema(table.schema().to_arrow()))
    with (
        TemporaryDirectory(prefix="hybrid-try-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        create_target_rows(connection, "found", table, schema.names)
        query = (
            f"SELECT * FROM audit.found ORDER BY {column_list(side.pipeline.sink.key)} "
            f"LIMIT {examples}"
        )
        first = connection.execute(query).fetchall()
        rows = count_rows(connection, "audit.found")
    shown = [
        {name: json_value(value) for name, value in zip(schema.names, row, strict=True)}
        for row in first
    ]
    return _Table(rows, names_and_types(schema), shown)


def _require_rows(
    loaded: LoadedPipeline, sample: Sample, report: AuditReport | None, found: _Table
) -> None:
    """Refuse a sample that no row is in."""
    if found.rows or (report is not None and report.input_rows.distinct):
        return
    by = ", ".join(sample.by)
    times = [
        f"{word} {moment:%Y-%m-%dT%H:%M:%SZ}"
        for word, moment in (("from", sample.since), ("until", sample.until))
        if moment is not None
    ]
    message = (
        f"Pipeline `{loaded.pipeline.name}` makes no row of the sample: "
        f"{' '.join([f'{sample.share * 100:g}% of the values of {by}', *times])}."
    )
    hint = (
        f"Raise `--keys`, {'widen `--since` and `--until`, ' if times else ''}choose another "
        "column with `--by`, or look whether the sources have rows that `transform` keeps."
    )
    raise InputError(message, hint, pipeline=loaded.pipeline.name)
