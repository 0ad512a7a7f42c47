"""Whether a new generation may take the rows of the serving one, by declaration and state."""

from __future__ import annotations

from collections.abc import Iterator

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import StateError
from sources.hybrid import Boundedness
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.planned_by import is_planned_by
from sources.serving import target_of
from spark_jobs.checkpoint.transform_compatibility import Transform, read_transforms
from spark_jobs.run_state.target_record import read_target_record
from spark_jobs.table.table_snapshot import TableSnapshot

RERUN = "Begin a generation that computes all columns from the sources: `hybrid generation new P`."
"""What to do instead, as every refusal says."""
# Rules by which nothing of the seam has to be known once the stream has passed it.
_SEAM_RULES = ("none", "key", "event_time", "off")
_LAYOUT = "delta.columnMapping.mode"


def require_fit(loaded: LoadedPipeline, serving: PipelineContext) -> Transform:
    """Refuse a generation that can't take the rows of the serving one; nothing is changed.

    Args:
        loaded: The pipeline as it is declared now.
        serving: The serving generation, with the definition that was kept for it.

    Returns:
        The transform that has computed all rows of the serving generation.

    Raises:
        StateError: Names what is not fit, and why.
    """
    for obstacle in _obstacles(loaded, serving):
        raise not_fit(serving.generation.name, obstacle)
    made = read_transforms(serving.generation)
    if len({(each.name, each.code, each.plan) for each in made}) != 1:
        raise not_fit(serving.generation.name, "several transforms have computed its rows")
    return made[-1]


def require_plain(table: TableSnapshot, generation: str) -> None:
    """Refuse a table whose files can't be copied column by column.

    Args:
        table: The serving table, at the version whose rows are taken.
        generation: Name of the serving generation.

    Raises:
        StateError: Names the feature.
    """
    if any("deletionVector" in add for add in table.files):
        raise not_fit(generation, "others have deleted rows of its table by deletion vectors")
    if table.configuration.get(_LAYOUT, "none") != "none":
        raise not_fit(generation, f"its table has column mapping (`{_LAYOUT}`)")
    if any(name.startswith("typeWidening") for name in table.protocol.features):
        raise not_fit(generation, "columns of its table were widened to other types")


def not_fit(generation: str, why: str, *, transient: bool = False) -> StateError:
    """Return the refusal to take the rows of a generation.

    Args:
        generation: Its name.
        why: The reason, as a clause.
        transient: Whether waiting helps.
    """
    message = (
        f"The changed columns can't be computed from the rows of generation {generation}: {why}. "
        "Nothing was changed."
    )
    return StateError(message, RERUN, transient=transient, generation=generation)


def _obstacles(loaded: LoadedPipeline, serving: PipelineContext) -> Iterator[str]:
    """Yield reasons why the rows can't be taken, as clauses."""
    pipeline, before, generation = loaded.pipeline, serving.pipeline, serving.generation
    if pipeline.sink.mode != "append":
        yield f"`sink.mode: {pipeline.sink.mode}`; only the files of a table that grows are kept"
    last = pipeline.sources[-1]
    earlier_are_files = all(isinstance(each, FileSource) for each in pipeline.sources[:-1])
    is_topic = isinstance(last, KafkaSource) and len(pipeline.sources) > 1
    is_files = isinstance(last, FileSource) and last.boundedness is Boundedness.BOUNDED
    if not earlier_are_files or not (is_topic or is_files):
        yield "its sources are other than files, and maybe a topic that follows them"
    if is_topic and last.boundedness is Boundedness.BOUNDED:
        yield f"topic source `{last.name}` has an end"
    if pipeline.follows_columns or before.added_columns or before.widened_columns:
        yield "its table follows the columns of a captured table"
    places = (loaded.state, target_of(serving.loaded, generation.name))
    if remote := [each.url for each in places if not each.is_local]:
        yield f"{remote[0]} is not on a file system of this machine, which is needed so far"
    if not is_planned_by(loaded, generation):
        yield "more than the transform has changed in the declaration since it was planned"
    if _sql_settings(loaded) != _sql_settings(serving.loaded):
        yield "properties `spark.sql.…` of `spark.conf` have changed, which other columns may obey"
    yield from _obstacles_in_state(serving)


def _obstacles_in_state(serving: PipelineContext) -> Iterator[str]:
    pipeline, generation, last = serving.pipeline, serving.generation, serving.pipeline.sources[-1]
    for source in pipeline.sources:
        is_bounded = source.boundedness is Boundedness.BOUNDED
        if is_bounded and serving.switch_state.end_of(source.name) is None:
            yield f"it has not read `{source.name}` to its end"
    if isinstance(last, KafkaSource):
        ledger, count = read_ledger(generation, last.name)
        if ledger is None:
            yield f"it has not begun to read `{last.name}`"
        elif ledger.rule not in _SEAM_RULES:
            yield f"rows of its seam are recognized by `{ledger.rule}`"
        elif ledger.is_filtered and count is None:
            yield f"its stream has not passed the seam of `{last.name}` yet, which takes minutes"
    if generation.names("bad/*"):
        yield "records were left out (bad records), which are counted by its micro-batches"
    if not read_transforms(generation):
        yield "it has no record of its transform"
    record = read_target_record(generation)
    if record is None or record.accepted:
        yield "others have changed rows of its table, which was accepted"


def _sql_settings(loaded: LoadedPipeline) -> dict[str, str]:
    conf = loaded.pipeline.spark.conf
    return {key: str(value) for key, value in conf.items() if key.startswith("spark.sql.")}
