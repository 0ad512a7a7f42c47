"""What a Dagster run says about the run of a pipeline that it starts: candidate, live run."""

import dagster as dg

from orchestration.defs.assets.table import card_and_facts
from orchestration.defs.keys import GENERATION_TAG, generation_name, note_on_run, role_of
from orchestration.defs.show import metadata
from orchestration.defs.show.markdown import in_lines
from sources.config.loader import LoadedPipeline
from sources.serving import candidate_name, generation_with_role, read_serving, target_of
from spark_jobs.checkpoint.transform_compatibility import last_change
from spark_jobs.launch.launch_record import log_path
from spark_jobs.run_state.heartbeat import Heartbeat


def say_candidate(context: dg.AssetExecutionContext, loaded: LoadedPipeline) -> None:
    """Log once in a Dagster run that it computes a candidate, and tag the run with its name.

    Does nothing if there is no candidate, or the run has that tag.

    Args:
        context: The run of an asset of the chain, which works on the newest generation.
        loaded: The pipeline.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    candidate = candidate_name(loaded)
    run = context.instance.get_run_by_id(context.run.run_id)
    if candidate is None or run is None or GENERATION_TAG in run.tags:
        return
    note_on_run(context, {GENERATION_TAG: candidate})
    context.log.info(
        f"This run computes {candidate}, a candidate: readers go on to see "
        f"{read_serving(loaded).generation} until the job `{generation_name(loaded)}` promotes it."
    )


def live_metadata(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    loaded: LoadedPipeline,
    beat: Heartbeat,
) -> metadata.Metadata:
    """Return the metadata of a live run that has started; log the start, and tag the Dagster run.

    For a candidate's run, the pipeline's card as readers see it comes first, and the names of the
    run's own entries begin with ``candidate:``.

    Args:
        context: The Dagster run that started it.
        loaded: The pipeline, by the declaration that the live run has.
        beat: First heartbeat of the live run.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The state can't be read.
        UnavailableError: A store or a broker does not answer.
    """
    generation = loaded.require_generation()
    note_on_run(context, {GENERATION_TAG: generation.name})
    context.log.info(
        f"The run of `{beat.source}` (generation {generation_with_role(loaded)}) is live: "
        f"driver {beat.pid}."
    )
    if (changed := last_change(generation)) is not None:
        context.log.warning(changed)
    shown = metadata.live(
        beat, log_path(generation, beat.source), target_of(loaded, generation.name).url
    )
    told = {**shown, **metadata.transform(changed)}
    if candidate_name(loaded) != generation.name:
        return {"generation": role_of(loaded, generation.name), **told}
    # The stream that readers depend on is another one: it comes first.
    seen, _ = card_and_facts(loaded)
    return {
        "now": dg.MetadataValue.md(in_lines(seen.markdown)),
        "generation": role_of(loaded, read_serving(loaded).generation),
        "candidate": role_of(loaded, generation.name),
        **{f"candidate: {name}": value for name, value in told.items()},
    }
