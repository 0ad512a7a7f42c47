"""Comparison of candidate and serving table by key: rows missing, added, changed; types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable

from hybrid_extensions.comparison.compare_tables import compare
from hybrid_extensions.comparison.compared_tables import create_target_rows, open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from hybrid_extensions.generations.candidate import require_candidate
from hybrid_extensions.generations.comparison.distributions import ColumnChange, column_changes
from hybrid_extensions.generations.switch.readiness import find_unready
from orchestration.comparison.installed_audit import query_misfit
from orchestration.comparison.report import EXAMPLES, AuditExample
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.errors import InputError, StateError, leaving
from sources.generations import acting_on
from sources.planning.context import PipelineContext
from sources.serving import read_serving, target_of

_NO_CANDIDATE = (
    "There is nothing to compare the table with that readers see. Begin a new generation with "
    "`hybrid generation new P`, and compute its table with `hybrid run P`. A generation that was "
    "rolled back is seen again by another rollback: `hybrid generation rollback P`."
)


def pair(candidate: str, serving: str) -> str:
    """Return words such as ``g2 against g1``, with which the text of a comparison begins."""
    return f"{candidate} against {serving}"


@dataclass(frozen=True)
class GenerationComparison:
    """Differences between the table that readers see and the newest one; all counts are rows.

    The serving generation (computation of the whole table) is the one that readers see; the
    candidate is the newest one, which a promotion would let them see.

    Attributes:
        pipeline: Name of the pipeline.
        serving: Name of the serving generation.
        candidate: Name of the newest generation.
        rows: Number of rows by name of the generation.
        missing: Rows of the serving generation whose key the candidate lacks, or has less often.
        added: Rows of the candidate whose key the serving generation lacks, or has less often.
        changed: Rows of the same key that differ in a column that both tables have.
        columns_missing: Names of columns that only the serving generation has.
        columns_added: Names of columns that only the candidate has.
        types_changed: Delta types of columns that both tables have with different ones: that of the
            serving generation and that of the candidate, by name.
        examples: Up to :data:`orchestration.comparison.report.EXAMPLES` examples for each of
            ``missing``, ``added`` and ``changed``.
        columns: What differs by column: changed rows, and how the distribution of numbers moved.
        audit_misfit: Why an audit of the candidate would be refused for its query; None if it fits,
            or was not tried.
        not_ready: Why the candidate can't be promoted yet, such as a live run that has not caught
            up, so that rows are missing which will come; None if it can.
    """

    pipeline: str
    serving: str
    candidate: str
    rows: dict[str, int]
    missing: int
    added: int
    changed: int
    columns_missing: list[str]
    columns_added: list[str]
    types_changed: dict[str, tuple[str, str]]
    examples: dict[str, list[AuditExample]]
    columns: list[ColumnChange] = field(default_factory=list)
    audit_misfit: str | None = None
    not_ready: str | None = None

    @property
    def rows_before(self) -> int:
        """Number of rows of the serving generation."""
        return self.rows[self.serving]

    @property
    def rows_now(self) -> int:
        """Number of rows of the candidate."""
        return self.rows[self.candidate]

    @property
    def is_same(self) -> bool:
        """Whether the tables have the same rows, columns and types.

        Values within ``audit.tolerance`` count as the same.
        """
        return self.passed and not (self.added or self.columns_added)

    @property
    def passed(self) -> bool:
        """Whether a promotion would take no row, column or type from readers.

        No row is missing or changed, no column is missing, and no type is different. The candidate
        may have more rows and more columns. Values within ``audit.tolerance`` are not changed ones.
        """
        lost = self.missing or self.changed or self.columns_missing or self.types_changed
        return not lost

    @property
    def numbers(self) -> dict[str, int]:
        """Row counts by label, for a check that plots their history."""
        return {
            "rows that readers see": self.rows_before,
            "rows of the candidate": self.rows_now,
            "missing": self.missing,
            "added": self.added,
            "changed": self.changed,
        }

    @property
    def text(self) -> str:
        """Comparison in one line, for people.

        Such as ``g2 against g1: 184,000 = 184,000 rows, 3 changed (`a` in 3), +1 column `vip```.
        The rows are those of the candidate, then those of the serving generation.
        """
        now, before = self.rows_now, self.rows_before
        sign = "=" if now == before else "<" if now < before else ">"
        parts = [f"{now:,} {sign} {counted(before, 'row')}"]
        parts += [
            f"{count:,} {what}"
            for count, what in ((self.missing, "missing"), (self.added, "added"))
            if count
        ]
        by_column = ", ".join(
            f"`{each.column}` in {each.changed:,}" for each in self.columns if each.changed
        )
        parts.append(f"{self.changed:,} changed" + (f" ({by_column})" if by_column else ""))
        parts += [
            f"{mark}{counted(len(names), 'column')} " + ", ".join(f"`{name}`" for name in names)
            for mark, names in (("-", self.columns_missing), ("+", self.columns_added))
            if names
        ]
        parts += [
            f"`{name}` is {now_type} instead of {type_before}"
            for name, (type_before, now_type) in self.types_changed.items()
        ]
        return f"{pair(self.candidate, self.serving)}: {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-compatible dictionary, computed values included."""
        computed = {"text": self.text, "is_same": self.is_same, "passed": self.passed}
        return {**computed, **asdict(self)}


@leaving("Nothing was changed.")
def compare_generations(loaded: LoadedPipeline) -> GenerationComparison:
    """Compare the newest generation's table with the serving one by key, as both are now.

    Shows what a promotion would change. Live runs are not stopped for it: their latest rows may be
    in one of the tables only. Only columns that both tables have are compared, without those that
    say which change a row is of: a row of a snapshot has none.

    Raises:
        StateError: There is no candidate. One that was rolled back is none: it has no table of its
            own any more.
        InputError: A table does not exist or can't be read, lacks a column of ``sink.key``, or has
            a column whose two types can't be compared.
        UnavailableError: The store of the state or of a table does not answer.
    """
    pipeline = loaded.pipeline.name
    candidate = require_candidate(loaded, _NO_CANDIDATE)
    serving = read_serving(loaded).generation
    tables = {}
    for name in (serving, candidate):
        path = target_of(loaded, name)
        if (table := open_target(path)) is None:
            message = f"Generation {name} of pipeline `{pipeline}` has no table yet: {path}."
            hint = f"Compute the table of {name} first (`hybrid run P`), then compare again."
            if name == serving:
                hint = (
                    f"There is nothing to compare {candidate} with: check its table yourself, and "
                    "promote it without a comparison: `hybrid generation promote P`."
                )
            raise InputError(message, hint, pipeline=pipeline, generation=name, table=path.url)
        tables[name] = table
    columns = {name: _types(each) for name, each in tables.items()}
    shared = [name for name in columns[serving] if name in columns[candidate]]
    if lacking := [name for name in loaded.pipeline.sink.row_key if name not in shared]:
        without = [name for name in tables if lacking[0] not in columns[name]]
        message = (
            f"Generations {serving} and {candidate} can't be compared: the table of "
            f"{' and of '.join(without)} has no column `{lacking[0]}`, by which rows are compared."
        )
        hint = (
            f"If {candidate} lacks it, correct the transform and begin another generation. If only "
            f"{serving} does, check the new table yourself, and promote it without a comparison: "
            "`hybrid generation promote P`."
        )
        raise InputError(message, hint, pipeline=pipeline, field="sink.key", column=lacking[0])
    kept = acting_on(loaded, candidate, as_kept=True)
    # Asked first: a live run that catches up meanwhile has not done so in these versions.
    not_ready = _not_ready(kept)
    found = compare_tables(loaded, tables)
    return replace(found, audit_misfit=query_misfit(kept, candidate), not_ready=not_ready)


def _not_ready(kept: LoadedPipeline) -> str | None:
    """Return why the generation of a kept copy can't be promoted yet; None if it can."""
    try:
        found = find_unready(PipelineContext.require(kept))
    except StateError as error:
        return error.message
    return None if found is None else found.message


def compare_tables(
    loaded: LoadedPipeline, tables: Mapping[str, DeltaTable], within: str | None = None
) -> GenerationComparison:
    """Compare two tables of a pipeline by key, in the columns that both have.

    Columns with metadata of a change, such as its position in the log, are left out.

    Args:
        loaded: The pipeline.
        tables: The table that readers see, then the other one, by the name of its generation. Both
            have the columns of ``sink.key``.
        within: Condition in DuckDB's SQL on the rows of the first table that are compared; all of
            them if left out.

    Raises:
        InputError: A table can't be read, or has a column whose two types can't be compared.
        UnavailableError: The login to the store has expired.
    """
    pipeline, (serving, candidate) = loaded.pipeline.name, tables
    columns = {name: _types(each) for name, each in tables.items()}
    shared = [name for name in columns[serving] if name in columns[candidate]]
    with (
        TemporaryDirectory(prefix="hybrid-compare-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        compared = [name for name in shared if name not in _of_the_change(loaded.pipeline)]
        create_target_rows(connection, "expected", tables[serving], compared)
        if within is not None:
            connection.execute(f"DELETE FROM audit.expected WHERE ({within}) IS NOT TRUE")
        create_target_rows(connection, "found", tables[candidate], compared)
        declared = loaded.pipeline.audit
        tolerance = {} if declared is None else declared.tolerance
        shared_tolerance = {name: tolerance[name] for name in shared if name in tolerance}
        key = loaded.pipeline.sink.row_key
        result = compare(connection, key, EXAMPLES, shared_tolerance)
        changes = column_changes(connection, result.by_column, key)
    added = [*result.examples["unexpected"], *result.examples["duplicated"]]
    return GenerationComparison(
        pipeline=pipeline,
        serving=serving,
        candidate=candidate,
        rows={serving: result.expected, candidate: result.found},
        missing=result.counts["missing"],
        added=result.counts["unexpected"] + result.counts["duplicated"],
        changed=result.counts["different"],
        columns_missing=[name for name in columns[serving] if name not in shared],
        columns_added=[name for name in columns[candidate] if name not in shared],
        types_changed={
            name: pair
            for name in shared
            if len(set(pair := (columns[serving][name], columns[candidate][name]))) > 1
        },
        examples={
            "missing": result.examples["missing"],
            "added": added[:EXAMPLES],
            "changed": result.examples["different"],
        },
        columns=changes,
    )


def _of_the_change(pipeline: Pipeline) -> set[str]:
    """Return the columns outside the key that say which change of a captured table a row is of."""
    names = {
        name
        for topic in pipeline.topics
        for name, part in topic.envelope_columns.items()
        if part != "deleted"
    }
    return names - {*pipeline.sink.row_key}


def _types(table: DeltaTable) -> dict[str, str]:
    """Return the Delta types of a table's columns by name; those of nested ones as JSON."""
    return {field.name: str(field.type.to_json()).strip('"') for field in table.schema().fields}
