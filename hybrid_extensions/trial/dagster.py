"""Action TRY of the control job in Dagster: run a pipeline on a sample of its keys."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.comparison.audit_metadata import audited
from hybrid_extensions.trial.run import SampleRun, try_sample
from hybrid_extensions.trial.sample_pipeline import SampleOptions, parse_share
from orchestration.chain import Observer, Outcome, Step
from orchestration.comparison.kept_audit import KeptAudit
from orchestration.comparison.report import in_words
from orchestration.defs.jobs.actions import Action
from orchestration.defs.show import metadata
from sources.common.counting import counted
from sources.common.fields import parse_instant
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

_SHOWN = 10
"""Rows of the sample's table that the page of the run shows."""


class _StepLog(Observer):
    """Says in the log of the run which step of the chain begins, and how it ended."""

    def __init__(self, log: dg.DagsterLogManager) -> None:
        self._log = log

    def started(self, step: Step[Any]) -> None:
        self._log.info(f"`{step.name}` begins.")

    def noted(self, step: Step[Any], text: str) -> None:
        self._log.info(f"`{step.name}`: {text}")

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        self._log.info(outcome.text)


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the action TRY of a pipeline's control job, by name."""
    del loaded
    text = (
        "runs the pipeline, as its file is now, on a part of its keys, and shows the rows and how "
        "they compare with DuckDB's and with the table; changes nothing"
    )
    fields = {
        "keys": dg.Field(
            str, default_value="", description="Which part of the keys to read, such as 1%."
        ),
        "key_columns": dg.Field(
            [str],
            default_value=[],
            description="Columns whose values are the keys; else the pipeline's `key`.",
        ),
        "since": dg.Field(
            str, default_value="", description="First event time, a date or a time with a zone."
        ),
        "until": dg.Field(str, default_value="", description="First event time after the sample."),
    }
    return {"TRY": Action(try_on_sample, text, fields)}


def try_on_sample(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Run the pipeline over a sample, as its file is now; show its table and the comparisons.

    Runs as an action of the control job. Nothing of the pipeline is touched, and no asset is
    materialized.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: The form, with ``keys``, ``key_columns``, ``since`` and ``until``.

    Raises:
        InputError: A field of the form is missing or not valid, or the audit of the sample failed;
            what was found is shown nevertheless.
        HybridError: As :func:`hybrid_extensions.trial.run.try_sample`.
    """
    if not config.keys:
        message = "TRY needs `keys`, the part of the keys to read."
        raise InputError(message, "Fill in `keys`, such as `1%`.", field="keys")
    options = SampleOptions(
        share=parse_share(config.keys),
        by=tuple(config.key_columns),
        since=parse_instant(config.since) if config.since else None,
        until=parse_instant(config.until) if config.until else None,
        keep=None,
    )
    found = try_sample(loaded, options, _StepLog(context.log), _SHOWN)
    context.add_output_metadata(_shown(loaded, found))
    if found.audit is not None and found.outcome == "failed":
        hint = f"Look at examples with `hybrid try P --keys {config.keys}`."
        raise InputError(
            in_words(found.audit.outcome, found.audit.expected), hint, pipeline=loaded.pipeline.name
        )
    rows = counted(found.rows, "row")
    context.log.info(f"Tried on {found.sample.share * 100:g}% of the keys: {rows} in the table.")


def _shown(loaded: LoadedPipeline, found: SampleRun) -> metadata.Metadata:
    """Return the metadata of a run over a sample."""
    columns = [{"column": name, "type": kind} for name, kind in found.columns.items()]
    shown: metadata.Metadata = {
        "rows": found.rows,
        **{f"rows read from {name}": rows for name, rows in found.read.items()},
        "columns": metadata.table(columns),
    }
    if found.examples:
        first = [{name: str(value) for name, value in row.items()} for row in found.examples]
        shown["first rows"] = metadata.table(first)
    if found.audit is not None:
        shown |= audited(KeptAudit.of(found.audit, now_ms()), loaded)
    else:
        shown["not audited"] = str(found.not_audited)
    if found.serving is not None:
        shown["compared with what serves"] = found.serving.text
    else:
        shown["not compared with what serves"] = str(found.not_compared)
    if found.plan_warnings:
        shown["warnings"] = metadata.table([{"warning": text} for text in found.plan_warnings])
    return shown
