"""Side pipeline that computes the rows of a range with the chain's own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from glob import escape
from typing import Any

import yaml

from hybrid_extensions.ranges.files.range_files import RangePart
from hybrid_extensions.ranges.range_scope import RangeScope
from orchestration.chain import ChainRun, Observer, Outcome, PlanStep, Step, run_chain
from sources.common.counting import counted
from sources.config.document.yaml_document import KEPT
from sources.config.loader import KeptDefinition, LoadedPipeline, load_pipeline
from sources.config.source.exported_source import ExportedFiles
from sources.kept_definitions import kept_folder
from sources.planning.context import PipelineContext
from sources.state.local_copy import local_copy
from sources.storage.folder import Folder

Declaration = Mapping[str, Any]
"""A source as a pipeline's file declares it."""
_SAME = (
    "name",
    "event_time",
    "key",
    "allowed_lateness",
    "rules",
    "sample",
    "transform",
    "spark",
    "s3",
    "hdfs",
)
_NOT_FOR_A_RANGE = ("converge", "complete_through", "offsets", "sequence", "table")
# What would cut a source into several micro-batches, between which a watermark moves.
_CUTTING = ("batch", "order", "rate")
_ONE_BATCH = {"files": 2**31 - 1, "bytes": 2**62}


def side_pipeline(
    context: PipelineContext, folder: Folder, scope: RangeScope, parts: Sequence[RangePart]
) -> LoadedPipeline | None:
    """Return the pipeline that computes a range from its files; None if they have no row of it.

    Its declaration is written into the backfill's folder at the first call; it writes to a table of
    its own there. For windows it reads each source in one micro-batch, in which no row is late, and
    merges: only so does the table have a window that is still open at the end of the range. The
    table then has parts of windows outside of the range, too.

    Args:
        context: The serving generation.
        folder: State folder of the backfill.
        scope: The range.
        parts: What the sources contribute to it, as :func:`.range_files.parts_in` returns it.

    Raises:
        InputError: The state's store refuses, or the pipeline is not valid.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if not parts:
        return None
    declared: dict[str, dict[str, object]] = {}
    for part in parts:
        declared[part.source.name] = {"time_range": limits(part.since, part.until)}
        if part.source.table is not None:
            # The table that the generation has read, whatever has the name now.
            declared[part.source.name]["path"] = part.source.path
        elif part.damaged:
            # These files alone: a look at all of them would find the damaged ones again.
            paths = dict.fromkeys(part.listing.splits["path"].to_pylist())
            declared[part.source.name]["path"] = [escape(path) for path in paths]
    # What was exported for the generation, whatever the origin holds now.
    exported = {
        part.source.name: part.source.declaration()
        for part in parts
        if isinstance(part.source, ExportedFiles)
    }

    def sources(kept: Sequence[Declaration]) -> Sequence[Declaration]:
        return [
            {**exported.get(each["name"], each), **declared[each["name"]]}
            for each in kept
            if each["name"] in declared
        ]

    return declare_side(context, folder, scope, sources)


def limits(since: datetime, until: datetime) -> dict[str, str]:
    """Return a ``time_range`` as a file declares it; begin inclusive, end exclusive."""
    return {"since": since.isoformat(), "until": until.isoformat()}


def declare_side(
    context: PipelineContext,
    folder: Folder,
    scope: RangeScope,
    sources: Callable[[Sequence[Declaration]], Sequence[Declaration]],
) -> LoadedPipeline:
    """Return the pipeline that computes a range; declare it in its folder at the first call.

    Args:
        context: The serving generation.
        folder: State folder of the recomputation.
        scope: The range.
        sources: Returns the sources to read, given those that the generation's file declares.

    Raises:
        InputError: The state's store refuses, or the pipeline is not valid.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    loaded, generation = context.loaded, context.generation
    own, definition = folder.folder("definition"), kept_folder(loaded, generation.name)
    if not own.exists(loaded.path.name):
        document = yaml.safe_load(definition.read_bytes(loaded.path.name) or b"")
        kept = {key: document[key] for key in _SAME if key in document}
        left_out = _NOT_FOR_A_RANGE if scope.windows is None else (*_NOT_FOR_A_RANGE, *_CUTTING)
        more = {} if scope.windows is None else {"batch": _ONE_BATCH}
        mode = document["sink"]["mode"] if scope.windows is None else "merge"
        side = {
            **kept,
            "sources": [
                {key: value for key, value in each.items() if key not in left_out} | more
                for each in sources(document["sources"])
            ],
            "state": folder.location("state"),
            "sink": {
                **document["sink"],
                "path": folder.location("rows"),
                "table": None,
                "mode": mode,
            },
        }
        own.replace_bytes(loaded.path.name, yaml.safe_dump(side).encode())
    # Anew each time: another machine that resumes it has its own copy of the code.
    code = str(local_copy(definition))
    own.replace(KEPT, KeptDefinition(generation=None, home=str(loaded.folder), code=code))
    return load_pipeline(local_copy(own) / loaded.path.name)


def compute_side(side: LoadedPipeline, say: Callable[[str], None]) -> None:
    """Compute the rows of a range into the table of its pipeline; what was done is not repeated.

    Args:
        side: The pipeline that :func:`declare_side` returns.
        say: Called with a line for each step.

    Raises:
        HybridError: A step is refused or fails.
    """
    leaves = "The table was not changed."
    run_chain(ChainRun(side, _Lines(say), rest_requested=True, leaves=leaves))


class _Lines(Observer):
    """Observer of a chain with a line for the plan and for what it is about to read."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def started(self, step: Step[Any]) -> None:
        """Say the name of a step that begins."""
        self._say(step.name)

    def finished(self, step: Step[Any], outcome: Outcome[Any]) -> None:
        """Say how much the plan reads, once it is made."""
        if isinstance(step, PlanStep):
            splits = sum(part.splits for part in outcome.value.files)
            self._say(f"{counted(splits, 'split is', 'splits are')} to be read.")
