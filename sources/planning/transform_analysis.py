"""Spark's analysis of a transform before anything runs, as kept in the state folder.

The analysis itself needs Spark and is made by a process of its own; here are its request, its
answer and the document that spares the next plan the same work.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sources.common.schema import names_and_types, parse_schema
from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorReport
from sources.kept_definitions import code_digests
from sources.planning.event_windows import EventWindows
from sources.planning.plan import Plan
from sources.state.generation import Generation

_NAME = "transform-analysis.json"


class OutputColumn(Part):
    """Column that a transform returns.

    Attributes:
        name: Its name.
        type: Its Spark SQL type.
        nullable: Whether Spark regards it as nullable.
        inputs: The input columns that its values are computed from, sorted; empty for a constant,
            a count of rows or a column of another table; None if the query plan does not show it.
    """

    name: str
    type: str
    nullable: bool
    inputs: list[str] | None


class TransformAnalysis(Record):
    """State document of a transform's analysis against the planned columns.

    Attributes:
        digest: Digest of what the analysis depends on: code, columns, sink, Spark.
        columns: The columns that the transform returns, in order; None if the analysis was not
            possible.
        passed: Names of the returned columns, if the transform only selects columns and changes no
            value and drops no row; None if it does more, or that is not known.
        same: Names of the returned columns that are the input's columns of these names, whatever
            else the transform does; None if that is not known.
        stateful: What each stateful operator keeps in the checkpoint, in words.
        watermark_ms: Delay of its watermark, in ms; None if it sets none.
        windows: The windows of event time by which ranges of the table can be recomputed, if the
            transform is stateful and has such windows.
        no_windows: Why there are no such windows, if it is stateful: a clause without a full stop.
        warning: Why the analysis was not possible here: a sentence; None if it was.
    """

    digest: str
    columns: list[OutputColumn] | None
    passed: list[str] | None = None
    same: list[str] | None = None
    stateful: list[str] = Field(default_factory=list)
    watermark_ms: int | None = None
    windows: EventWindows | None = None
    no_windows: str | None = None
    warning: str | None = None

    @property
    def warnings(self) -> list[str]:
        """``warning`` as a list of one sentence; empty if the analysis was possible."""
        return [] if self.warning is None else [self.warning]


class AnalysisRequest(BaseModel):
    """Request to the process that analyses a transform.

    Attributes:
        pipeline: Path of the pipeline's file.
        columns: Columns that the transform gets, as names and Spark SQL types; of several inputs
            those of the first.
        inputs: The columns of each of several inputs, by its name; empty for one.
        replayed: Names of the sources that read rows of their seam again (``seam_rule`` of the
            plan is ``replay``), which a stateful transform would count twice.
        digest: Digest of what the analysis depends on.
    """

    model_config = ConfigDict(frozen=True)

    pipeline: Path
    columns: dict[str, str]
    inputs: dict[str, dict[str, str]] = Field(default_factory=dict)
    replayed: list[str]
    digest: str


class AnalysisAnswer(BaseModel):
    """Answer of the process that analyses a transform; exactly one of the two is set.

    Attributes:
        analysis: The analysis.
        refusal: Error of the transform, or of the declaration of the sink.
    """

    analysis: TransformAnalysis | None = None
    refusal: ErrorReport | None = None


def request_by_plan(loaded: LoadedPipeline, plan: Plan) -> AnalysisRequest:
    """Return the request to analyse a pipeline's transform against the columns of a plan.

    Called with a new plan before it is written, and later to compare the present transform with
    the analysis that was recorded.

    Raises:
        OSError: The query or a module of the transform can't be read.
    """
    replayed = [part.source for part in plan.topics if part.seam_rule == "replay"]
    inputs = {
        name: plan.of_sources([source.name for source in each.sources]).columns_by_name
        for name, each in loaded.pipeline.inputs.items()
    }
    return _request(loaded, plan.columns_by_name, replayed, inputs)


def request_by_declaration(loaded: LoadedPipeline) -> AnalysisRequest | None:
    """Return the request to analyse a transform against declared columns, before any plan.

    None if no source declares its columns, which are then known only from the data. The first
    source that declares them counts.

    Raises:
        OSError: The query or a module of the transform can't be read.
        InputError: ``select`` of the source does not fit its columns.
    """
    if loaded.pipeline.inputs:
        found = [request_by_declaration(each) for each in loaded.by_input.values()]
        known = [each.columns for each in found if each is not None]
        if len(known) < len(found):
            return None
        return _request(loaded, known[0], [], dict(zip(loaded.pipeline.inputs, known, strict=True)))
    for source in loaded.pipeline.sources:
        if isinstance(source, KafkaSource):
            declared = source.declared_columns
        else:
            declared = source.columns and {**source.columns, **source.partitions}
        if declared:
            columns = source.selection.columns(parse_schema(declared))
            return _request(loaded, names_and_types(columns), [])
    return None


def read_analysis(generation: Generation) -> TransformAnalysis | None:
    """Read the analysis of the transform from the time when a generation was last planned.

    None if the generation was not planned yet, or was planned by a version without an analysis.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_NAME, TransformAnalysis)


def keep_analysis(generation: Generation, analysis: TransformAnalysis) -> None:
    """Write an analysis to a generation's state, in place of the one before.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, analysis)


def _request(
    loaded: LoadedPipeline,
    columns: dict[str, str],
    replayed: list[str],
    inputs: dict[str, dict[str, str]] | None = None,
) -> AnalysisRequest:
    pipeline = loaded.pipeline
    given = pipeline.current(columns)
    depends_on = {
        "transform": pipeline.transform.model_dump(mode="json"),
        "code": code_digests(loaded),
        "columns": given,
        "replayed": replayed,
        "rules": pipeline.row_rules.contract(),
        "sink": pipeline.sink.model_dump(mode="json"),
        "event_time": pipeline.event_time.model_dump(mode="json"),
        "conf": pipeline.spark.conf,
        "spark": version("pyspark"),
        "found": sorted(TransformAnalysis.model_fields),
    }
    if inputs:
        depends_on["inputs"] = inputs
    live = pipeline.sources[-1]
    if isinstance(live, KafkaSource) and live.align is not None:
        depends_on["align"] = live.align.model_dump(mode="json")
    # Properties of Spark may hold secrets, of which a digest shows nothing.
    text = json.dumps(depends_on, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return AnalysisRequest(
        pipeline=loaded.path,
        columns=given,
        inputs=inputs or {},
        replayed=replayed,
        digest=digest,
    )
