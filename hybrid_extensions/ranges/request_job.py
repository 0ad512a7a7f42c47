"""Job of a request for ranges of several pipelines: a step for each, with its result."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import dagster as dg
from pydantic import Field

from hybrid_extensions.generations.table_report import report_table
from hybrid_extensions.ranges import metadata
from hybrid_extensions.ranges.backfill import backfill, look
from hybrid_extensions.ranges.jobs import BACKFILL, backfill_key
from hybrid_extensions.ranges.request import Span
from orchestration.attribution import acting_user
from orchestration.defs.keys import RESULT_TAG, note_on_run
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.dagster_remedies import say_in
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError

NAME = "all_backfill"
_FOR = "%Y%m%dT%H%M%S"
_NOTHING = "Nothing was done."


class RequestConfig(dg.Config):
    """Launch form of a backfill of ranges of several pipelines.

    Attributes:
        pipelines: Names of the pipelines; all of the code location if empty.
        ranges: Ranges, as :meth:`.request.Span.parse` reads them.
        dry_run: Whether to show only what would be read.
    """

    pipelines: list[str] = Field(
        default=[], description="Names of pipelines. Empty: all of this code location."
    )
    ranges: list[str] = Field(
        default=[],
        description="Ranges of event time, the same for each pipeline: a day as YYYY-MM-DD, or "
        "begin/end, such as 2024-03-01/2024-03-04 or with times; the end is left as it is.",
    )
    dry_run: bool = Field(
        default=True, description="Only show what would be read; nothing is written."
    )


class RangeStep(NamedTuple):
    """What one step of the job does.

    Attributes:
        pipeline: Name of the pipeline.
        span: The range, as text.
        is_dry_run: Whether it only looks.
    """

    pipeline: str
    span: str
    is_dry_run: bool

    @property
    def key(self) -> str:
        """Pipeline and range as a part of a step's name in Dagster, such as ``orders_20240301``."""
        span = Span.parse(self.span)
        ends = (span.since,) if span == Span.parse(f"{span.since:%Y-%m-%d}") else span
        times = [f"{each:{_FOR}}".removesuffix("T000000") for each in ends]
        return "_".join([self.pipeline, *times])


def definitions(pipelines: Sequence[LoadedPipeline]) -> dg.Definitions:
    """Return the job for ranges of several pipelines of a code location; none for a single one.

    None either if a pipeline has the name of the job, or one from which that would be made.
    """
    files = {each.pipeline.name: each.path for each in pipelines}
    if len(files) < 2 or not {NAME, NAME.removesuffix(BACKFILL.ending)}.isdisjoint(files):
        return dg.Definitions()

    def ask(
        context: dg.OpExecutionContext, config: RequestConfig
    ) -> Iterator[dg.DynamicOutput[RangeStep]]:
        """List the ranges of each pipeline; refuse a form that makes no sense."""
        with failures(None):
            steps = steps_of(config, list(files))
        if config.dry_run:
            note_on_run(context, {RESULT_TAG: "dry run"})
        for each in steps:
            yield dg.DynamicOutput(each, mapping_key=each.key)

    def backfill_range(context: dg.OpExecutionContext, asked: RangeStep) -> None:
        """Recompute one range of one pipeline. Its live run continues."""
        with failures(None):
            loaded = load_pipeline(files[asked.pipeline])
        with failures(loaded):
            span = Span.parse(asked.span)
            if asked.is_dry_run:
                found = look(loaded, span.since, span.until)
                context.add_output_metadata(metadata.looked(found, None))
                context.log.info(f"{asked.pipeline} {span}: {found.text}")
                return
            run_id = f"{backfill_key(context)}-{asked.key}"
            by, say = acting_user(context.run.tags, None), say_in(context, loaded)
            done = backfill(loaded, span.since, span.until, run_id, say, by)
            context.add_output_metadata(metadata.replaced(done))
            report_table(context, loaded, done.text)

    listed: Any = dg.op(name=f"do_{NAME}", out=dg.DynamicOut())(ask)
    recomputed: Any = dg.op(name="range")(backfill_range)

    @dg.job(name=NAME, description=_DESCRIPTION, executor_def=dg.in_process_executor)
    def job() -> None:
        listed().map(recomputed)

    return dg.Definitions(jobs=[job])


_DESCRIPTION = (
    "For later: recomputes ranges of event times of several pipelines from the files. Each range "
    "of each pipeline is a step of the run, named after both; one that fails holds up no other. "
    "*Re-execute from failure* does the failed ones again, and no other; *Terminate* ends the "
    "request, and leaves each range as it was or whole."
)


def steps_of(config: RequestConfig, names: Sequence[str]) -> list[RangeStep]:
    """Return the steps that a form asks for: each range of each pipeline, by pipeline.

    One that is written twice is one step.

    Args:
        config: The form; without ``pipelines`` it asks for all of them.
        names: The pipelines that there are.

    Raises:
        InputError: The form names no range, a text that is none, or a pipeline that there is not.
    """
    if unknown := [each for each in config.pipelines if each not in names]:
        field = "Field `pipelines` of the launch form"
        message = f"{field}: there is no pipeline `{unknown[0]}`. {_NOTHING}"
        hint = f"Name some of {', '.join(names)}."
        raise InputError(message, hint, field="pipelines", value=unknown[0])
    if not config.ranges:
        message = f"Field `ranges` of the launch form is empty. {_NOTHING}"
        hint = 'Name a day or a range, such as `ranges: ["2024-03-01", "2024-03-05/2024-03-08"]`.'
        raise InputError(message, hint, field="ranges")
    spans = [str(Span.parse(each)) for each in config.ranges]
    asked = [
        RangeStep(name, span, config.dry_run)
        for name in config.pipelines or names
        for span in spans
    ]
    return list(dict.fromkeys(asked))
