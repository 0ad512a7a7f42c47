"""Position in a commit's `userMetadata`: up to where its rows come from sources; when it counts.

Each commit of a micro-batch says it in ``userMetadata`` of its ``commitInfo``, where Spark's
``DESCRIBE HISTORY`` shows it
(https://docs.delta.io/latest/delta-batch.html#set-user-defined-commit-metadata). So a table alone
suffices to resume, even if the checkpoint is lost. A position counts only if its commit has the
transaction of that micro-batch: another commit of the same session, such as the first part of a
micro-batch, does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pydantic import Field, ValidationError

from sources.common.positions import Offsets, TopicPartition, flatten
from sources.common.state_document import Part
from sources.errors import StateError
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.commit_log import Commit

FORM = 1
"""Version of the form; a higher one is refused."""
_PLAN, TOPIC = "plan", "offsets"


class CommitPosition(Part):
    """Position of one commit.

    Attributes:
        hybrid: Version of the form.
        generation: Name of the generation.
        writer: Delta's application id of the micro-batch.
        batch: Number of the micro-batch, the version of its transaction.
        sources: What each source was read up to, by its name: ``{"offsets": {topic: {partition:
            first unread offset}}}``, or ``{"plan": [version, index]}`` of its plan's log. A source
            that has not begun is missing.
        topics: ``<cluster id>/<topic id>`` of each topic of the last source, by name.
        seam: Whether rows that history holds were still filtered, so that what comes next depends
            on history, too.
    """

    hybrid: int = FORM
    generation: str
    writer: str
    batch: int
    sources: dict[str, dict[str, Any]]
    topics: dict[str, str] = Field(default_factory=dict)
    seam: bool = False

    def offsets_of(self, source: str) -> Offsets | None:
        """Return the first unread offset of each partition of a source; None if it has none."""
        found = self.sources.get(source, {}).get(TOPIC)
        return None if found is None else flatten(found)

    def text(self) -> str:
        """Return the position as compact JSON, for ``userMetadata``."""
        return json.dumps(
            self.model_dump(exclude_defaults=True) | {"hybrid": FORM}, separators=(",", ":")
        )

    @classmethod
    def of(cls, commit: Commit) -> Self | None:
        """Return the position that a commit says; None if it says none.

        None, too, if the position has the right form but not its fields, or if the commit lacks the
        transaction of the micro-batch that it names.

        Raises:
            StateError: It is of a form that this version does not know.
        """
        try:
            found = json.loads(commit.user_metadata or "null")
        except ValueError:
            return None
        if not isinstance(found, dict) or "hybrid" not in found:
            return None
        if found["hybrid"] != FORM:
            message = (
                f"Version {commit.version} of the table says its position in form "
                f"{found['hybrid']}; this version of the project reads form {FORM} only. The table "
                "was not changed."
            )
            hint = "Install the version of this project that wrote the table, then try again."
            raise StateError(message, hint)
        try:
            position = cls.model_validate(found)
        except ValidationError:
            return None
        is_own = commit.transactions.get(position.writer) == position.batch
        return position if is_own else None


@dataclass(frozen=True)
class CommitPositions:
    """Positions of the commits of one query, by its checkpoint.

    Attributes:
        generation: State of the generation.
        sources: Names of the sources, in the order of their places in the query's union.
        topics: Identities of the topics of the last source, as in :class:`CommitPosition`.
        is_append: Whether micro-batches are committed under the query's id; else under the
            generation's.
        seam_end: First offset of each partition of the last source from which on its rows need not
            be compared with history; empty if the query compares none.
    """

    generation: Generation
    sources: Sequence[str]
    topics: Mapping[str, str] = field(default_factory=dict)
    is_append: bool = True
    seam_end: Mapping[TopicPartition, int] = field(default_factory=dict)

    def of(self, batch_id: int) -> str:
        """Return what the commit of a micro-batch that has begun says, as JSON.

        Raises:
            StateError: The file with the micro-batch's offsets is missing or damaged.
            UnavailableError: The checkpoint's store does not answer.
        """
        ends = offset_log.offsets_of(self.generation.checkpoint, batch_id)
        reached = {name: _reached(end) for name, end in zip(self.sources, ends, strict=False)}
        position = CommitPosition(
            generation=self.generation.name,
            writer=self._writer,
            batch=batch_id,
            sources={name: each for name, each in reached.items() if each is not None},
            topics=dict(self.topics),
        )
        following = position.offsets_of(self.sources[-1]) or {}
        is_in_seam = any(following.get(at, 0) < end for at, end in self.seam_end.items())
        return position.model_copy(update={"seam": is_in_seam}).text()

    @cached_property
    def _writer(self) -> str:
        # There is none before the query's first start.
        query = offset_log.query_id(self.generation.checkpoint) if self.is_append else None
        return query or self.generation.info.transaction_id


def _reached(offset: Any) -> dict[str, Any] | None:
    """Return one of Spark's offsets in the form of a position; None for a placeholder's."""
    if not isinstance(offset, dict) or "logOffset" in offset:
        return None
    if "reservoirVersion" in offset:
        return {_PLAN: [offset["reservoirVersion"], offset["index"]]}
    return {TOPIC: offset}
