"""Target table as an asset: its card, facts, last action, ten rows, links and freshness."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from warnings import catch_warnings, simplefilter

import dagster as dg

from orchestration.defs.assets.upstream import upstream_keys
from orchestration.defs.jobs.added_jobs import added_jobs
from orchestration.defs.jobs.restarts_of_a_day import restarts_of_a_day
from orchestration.defs.keys import (
    control_name,
    generation_name,
    live_key,
    role_of,
    table_group,
    table_key,
)
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.markdown import in_lines
from orchestration.defs.show.metadata import Metadata
from orchestration.defs.show.metadata import table as metadata_table
from orchestration.display import shortened, whole_second
from orchestration.progress.in_words import action_in_words
from orchestration.progress.table_facts import TableFacts, first_rows, table_facts
from orchestration.supervision.card import Card, card
from orchestration.supervision.status import status
from sources.common.times import now_ms
from sources.config.code.transform import SqlTransform
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.planning.topics.followed_columns import followed_columns
from sources.planning.transform_analysis import read_analysis
from sources.serving import candidate_name, read_serving
from sources.state.action_log import read_actions
from sources.state.generation import read_generation

CODE = "dagster/code_references"
_LAST_ACTION = "last action"
_SHOWN = 600
REPORT = "report"
"""Metadata entry with the page that an action wrote about the pipeline."""


def table_asset(loaded: LoadedPipeline) -> dg.AssetsDefinition:
    """Return the asset of a pipeline's target table, downstream of its last source.

    The chain materializes it at its end, unless it computed a candidate, which readers do not see;
    afterwards the supervision reports new versions of the table and how the pipeline is. It may be
    materialized alone at any time, to look now: that starts no run and changes no table; it reads
    the table's log and ten of its rows, whose values Dagster then keeps and shows as metadata. As
    long as there is no table it records an observation, and no materialization.
    """
    about = loaded.pipeline.about
    key = table_key(loaded)
    policy = None
    if about.fresh_within is not None:
        policy = dg.FreshnessPolicy.time_window(fail_window=about.fresh_within)

    @dg.asset(
        key=key,
        deps=[live_key(loaded)],
        group_name=table_group(loaded),
        kinds={"deltalake"},
        description=_description(loaded),
        owners=about.owners,
        tags=about.tags,
        metadata=_definition_metadata(loaded),
        freshness_policy=policy,
        output_required=False,
    )
    def table(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with failures(loaded):
            fresh = load_again(loaded.path)
            seen, facts = card_and_facts(fresh)
            context.log.info(seen.text)
            if (candidate := candidate_name(fresh)) is not None:
                context.log.info(f"Nothing changed for readers: {role_of(fresh, candidate)}.")
            first = card_metadata(seen, restarts_of_a_day(context.instance, fresh)) | last_day(seen)
            first |= kept_action(context.instance, fresh)
            if facts is None:
                yield dg.AssetObservation(key, metadata=first)
                return
            yield dg.MaterializeResult(
                metadata={**first, **table_metadata(fresh, facts), **some_rows(fresh, facts)},
                data_version=dg.DataVersion(str(facts.version)),
            )

    return table


def card_and_facts(loaded: LoadedPipeline) -> tuple[Card, TableFacts | None]:
    """Return a pipeline's card for Dagster, and facts about the table that readers see.

    The facts are from the table's log; None if there is no table yet. The card's remedies are jobs
    and assets.

    Raises:
        StateError: The state can't be read.
        InputError: The table can't be read.
        UnavailableError: A store or a broker does not answer.
    """
    facts = table_facts(loaded)
    seen = card(loaded, status(loaded), facts)
    told = {
        name: in_dagster(text, loaded)
        for name, text in (
            ("text", seen.text),
            ("reason", seen.reason),
            ("markdown", seen.markdown),
        )
    }
    return seen.model_copy(update=told), facts


def card_metadata(seen: Card, restarts: str | None = None) -> Metadata:
    """Return a card as metadata for the table's page: ``now``, and ``restarts`` if there were any.

    Args:
        seen: The card.
        restarts: A sentence on automatic restarts of the live run; None if there were none.
    """
    again = {} if restarts is None else {"restarts": restarts}
    return {"now": dg.MetadataValue.md(in_lines(seen.markdown)), **again}


def last_action(what: str, at_ms: int | None = None) -> Metadata:
    """Return metadata about what was done last to the table, with the time, in short lines.

    Args:
        what: What was done, in Markdown; the first 600 characters are shown.
        at_ms: When, in ms since 1970; now if left out, as of a job that has just done it.
    """
    text = f"{shortened(what, _SHOWN)}\n\n{whole_second(at_ms or now_ms())}"
    return {_LAST_ACTION: dg.MetadataValue.md(in_lines(text))}


def kept_action(instance: dg.DagsterInstance, loaded: LoadedPipeline) -> Metadata:
    """Return the metadata of the last action and of the last report, from Dagster's events.

    The table's page shows the last materialization only, so each later event has to repeat them.
    Empty if there were none. What the log of actions has begun since takes the action's place, such
    as a start of the live run by the chain after a STOP.

    Args:
        instance: Dagster's instance.
        loaded: The pipeline.
    """
    key = table_key(loaded)
    records = [
        *instance.fetch_materializations(key, limit=1).records,
        *instance.fetch_observations(key, limit=1).records,
    ]
    kept: Metadata = {}
    for record in sorted(records, key=lambda each: each.timestamp):
        found = record.asset_materialization or record.event_log_entry.asset_observation
        shown = {} if found is None else found.metadata
        kept |= {name: shown[name] for name in (_LAST_ACTION, REPORT) if name in shown}
    # A state that can't be read is told by the card; an earlier release told no seconds.
    with suppress(HybridError, ValueError):
        last = read_actions(loaded.state, last=1) if _LAST_ACTION in kept else []
        if last and _second_of(kept[_LAST_ACTION]) < last[0].at_ms // 1_000:
            kept |= last_action(action_in_words(last[0]), last[0].at_ms)
    return kept


def _second_of(action: dg.MetadataValue[Any]) -> float:
    """Return when a last action was, in seconds since 1970, by the last line of its text."""
    at = str(action.value).splitlines()[-1].replace("UTC", "+0000")
    return datetime.strptime(at, "%d %b %Y %H:%M:%S %z").timestamp()


def last_day(seen: Card) -> Metadata:
    """Return the metadata ``last 24 h (UTC)`` with a card's plots; empty if it has none."""
    return {} if seen.plots is None else {"last 24 h (UTC)": dg.MetadataValue.md(seen.plots)}


def table_metadata(loaded: LoadedPipeline, facts: TableFacts) -> Metadata:
    """Return the metadata of a version of the table: rows, size, columns, generation.

    Args:
        loaded: The pipeline.
        facts: Facts from the table's log.

    Raises:
        InputError: The scheme of ``state`` is not supported, or its store refuses.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    texts = loaded.pipeline.about.columns
    columns = [
        dg.TableColumn(name, kind, description=texts.get(name))
        for name, kind in facts.columns.items()
    ]
    shown: Metadata = {
        "generation": read_serving(loaded).generation,
        "version of the table": str(facts.version),
        "files": facts.files,
        "size (MB)": round(facts.bytes / 1e6, 3),
        "dagster/column_schema": dg.TableSchema(columns),
    }
    if facts.rows is not None:
        shown["dagster/row_count"] = facts.rows
    if followed := _followed(loaded):
        shown["followed columns"] = dg.MetadataValue.md(followed)
    if (lineage := _lineage(loaded)) is not None:
        shown["dagster/column_lineage"] = lineage
    return shown


def some_rows(loaded: LoadedPipeline, facts: TableFacts) -> Metadata:
    """Return the metadata with ten of the table's rows; empty if it has none.

    Args:
        loaded: The pipeline.
        facts: What the table's log says.

    Raises:
        InputError: The table can't be read.
        StateError: The state is damaged.
        UnavailableError: Its store does not answer.
    """
    rows = first_rows(loaded, facts.columns)
    return {"ten of the rows": metadata_table(rows)} if rows else {}


def _followed(loaded: LoadedPipeline) -> str:
    """Return the changes of the captured table's columns that were followed, as a list."""
    generation = read_generation(loaded.state, read_serving(loaded).generation)
    return "\n".join(f"- {change}" for change in followed_columns(generation))


def _lineage(loaded: LoadedPipeline) -> dg.TableColumnLineage | None:
    """Return which columns of the sources each column is computed from; None if that is unknown."""
    generation = loaded.open_generation(create=False)
    analysis = None if generation is None else read_analysis(generation)
    if analysis is None or analysis.columns is None:
        return None
    # Several sources may be of one folder, and Dagster refuses a column that is named twice.
    keys = {key for each in loaded.pipeline.sources for key in upstream_keys(loaded, each.name)}
    return dg.TableColumnLineage(
        {
            column.name: [
                dg.TableColumnDep(asset_key=key, column_name=name)
                for name in column.inputs
                for key in sorted(keys, key=str)
            ]
            for column in analysis.columns
            if column.inputs
        }
    )


def _description(loaded: LoadedPipeline) -> str:
    pipeline = loaded.pipeline
    sink = pipeline.sink
    # Dagster's tooltips show Markdown as it is: the first paragraphs have none.
    key = ", ".join(sink.key)
    is_merged = sink.mode == "merge"
    rows = f"Rows are {'updated' if is_merged else 'added once each, identified'} by {key}."
    sources = ", then ".join(f"{source.name} ({source.type})" for source in pipeline.sources)
    jobs = {generation_name(loaded): "replaces it by a new version"}
    jobs |= {each.name(loaded): each.does for each in added_jobs()}
    told = [
        pipeline.about.description,
        f"Delta table, filled from {sources}. {rows}",
        f"The job {_job(pipeline.name)} fills it; {_job(control_name(loaded))} pauses and resumes "
        "its stream, and proves by AUDIT that the table is right; "
        f"{'; '.join(f'{_job(name)} {does}' for name, does in jobs.items())}.",
        _schedules(loaded),
        _pages(loaded),
        "[How it is now](?view=checks&checkDetail=healthy): the check `healthy`, with the time "
        "of its last look. The card `now`, in the metadata below the columns, is as of the last "
        "change.",
    ]
    return "\n\n".join(filter(None, told))


def _job(name: str) -> str:
    """Return a link to a job, which Dagster finds in whatever code location it is."""
    return f"[{name}](/guess/{name})"


def _pages(loaded: LoadedPipeline) -> str:
    """Return links to the pages of other assets of a pipeline."""
    pages = {"plan": "The plan", "progress": "progress in pictures"}
    pages[loaded.pipeline.sources[-1].name] = "the last source"
    for section in loaded.sections:
        pages |= section.assets
    name = loaded.pipeline.name
    return " · ".join(f"[{text}](/assets/{name}/{asset})" for asset, text in pages.items())


def _schedules(loaded: LoadedPipeline) -> str:
    """Return a link to the schedules of a pipeline; empty if it has none."""
    pipeline = loaded.pipeline
    names = [name for section in loaded.sections for name in section.schedules]
    shown = ", ".join(f"{pipeline.name}_{each}" for each in names)
    return f"[By schedule](/automation): {shown}." if shown else ""


def _definition_metadata(loaded: LoadedPipeline) -> Metadata:
    sink = loaded.pipeline.sink
    return {
        "dagster/table_name": sink.table or loaded.pipeline.name,
        "dagster/uri": loaded.locate(sink.path),
        CODE: _code(loaded),
    }


def _code(loaded: LoadedPipeline) -> dg.CodeReferencesMetadataValue:
    """Return where the pipeline is declared, and where its transform is."""
    transform = loaded.pipeline.transform
    places = {"declaration": (loaded.path, 1)}
    if isinstance(transform, SqlTransform):
        places["transform"] = (loaded.folder / transform.sql, 1)
    else:
        file = loaded.folder / f"{transform.module.replace('.', '/')}.py"
        if file.is_file():
            places["transform"] = (file, _line_of(file.read_text(), transform.attribute))
    with catch_warnings():
        # Dagster's links to code are beta, which it would say at each load.
        simplefilter("ignore", dg.BetaWarning)
        return dg.CodeReferencesMetadataValue(
            code_references=[
                dg.LocalFileCodeReference(file_path=str(path), line_number=line, label=label)
                for label, (path, line) in places.items()
            ]
        )


def _line_of(text: str, function: str) -> int:
    """Return the line in which a function is defined; 1 if the text does not define it."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return 1
    lines = [
        each.lineno for each in body if isinstance(each, ast.FunctionDef) and each.name == function
    ]
    return lines[0] if lines else 1
