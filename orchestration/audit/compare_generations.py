"""Two generations beside each other: what readers would see change if the newer one served."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestration.audit.compare import compare
from orchestration.audit.report import EXAMPLES, AuditExample
from orchestration.audit.run import MEMORY_LIMIT
from orchestration.audit.sides import create_rows, open_target
from orchestration.audit.sql import open_database
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.generations import newest, read_serving, target_of


@dataclass(frozen=True)
class GenerationComparison:
    """What differs between the generation that serves and the newest one; all counts are rows.

    Attributes:
        pipeline: Its name.
        serving: Name of the generation that serves.
        candidate: Name of the newest one.
        rows: What each of the two holds.
        gone: Rows of the one that serves whose key the newest one has not, or not as often.
        added: Rows of the newest one whose key the one that serves has not, or not as often.
        changed: Rows of the same key that differ in a column that both have.
        columns_gone, columns_added: Names of columns that only one of the two has.
        examples: Up to :data:`orchestration.audit.run.EXAMPLES` for each of the three words.
    """

    pipeline: str
    serving: str
    candidate: str
    rows: dict[str, int]
    gone: int
    added: int
    changed: int
    columns_gone: list[str]
    columns_added: list[str]
    examples: dict[str, list[AuditExample]]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


def compare_generations(loaded: LoadedPipeline) -> GenerationComparison:
    """Compare the tables of the generation that serves and of the newest one, as they are now.

    A live run goes on meanwhile: its last rows may be in one of them only.

    Raises:
        StateError: There is no newer generation than the one that serves.
        InputError: A table can't be read, or one has not all columns of `sink.key`.
    """
    serving, candidate = read_serving(loaded).generation, newest(loaded)
    if candidate in (None, serving):
        message = f"Pipeline `{loaded.pipeline.name}` has no generation beside {serving}."
        raise StateError(message, "Begin one with `hybrid generation new`, and run it.")
    assert candidate is not None
    tables = {}
    for name in (serving, candidate):
        path = target_of(loaded, name)
        if (table := open_target(path)) is None:
            message = f"There is no table {path} of generation {name} yet."
            raise InputError(message, "Run it.")
        tables[name] = table
    columns = {
        name: [field.name for field in each.schema().fields] for name, each in tables.items()
    }
    shared = [name for name in columns[serving] if name in columns[candidate]]
    if lacking := [name for name in loaded.pipeline.sink.key if name not in shared]:
        message = f"Column {', '.join(lacking)} of `sink.key` is not in both tables."
        raise InputError(message, "Rows are told by it: generations can't be compared without.")
    with (
        TemporaryDirectory(prefix="hybrid-compare-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        create_rows(connection, "expected", tables[serving], shared)
        create_rows(connection, "found", tables[candidate], shared)
        found = compare(connection, loaded.pipeline.sink.key, EXAMPLES)
    more = [*found.examples["unexpected"], *found.examples["duplicated"]]
    return GenerationComparison(
        pipeline=loaded.pipeline.name,
        serving=serving,
        candidate=candidate,
        rows={serving: found.expected, candidate: found.found},
        gone=found.counts["missing"],
        added=found.counts["unexpected"] + found.counts["duplicated"],
        changed=found.counts["different"],
        columns_gone=[name for name in columns[serving] if name not in shared],
        columns_added=[name for name in columns[candidate] if name not in shared],
        examples={
            "gone": found.examples["missing"],
            "added": more[:EXAMPLES],
            "changed": found.examples["different"],
        },
    )
