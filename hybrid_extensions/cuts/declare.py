"""Declaration of consistent cuts, which need merge, the log's position, and one database."""

from __future__ import annotations

import posixpath
from datetime import timedelta
from typing import TYPE_CHECKING

from sources.common.durations import Duration
from sources.common.fields import Declared
from sources.config.section import Section
from sources.config.source.kafka_source import KafkaSource

if TYPE_CHECKING:
    from sources.config.pipeline import Pipeline


class Cuts(Declared):
    """Consistent cuts of the tables of a database: versions that are of the same commit.

    Attributes:
        path: Folder of the Delta table of the cuts, relative to the pipeline's file, or a URL. It
            is the same for all pipelines whose tables belong to a cut.
        every: Least time between two cuts.
    """

    path: str
    every: Duration = timedelta(seconds=60)


def overlap(one: str, other: str) -> bool:
    """Return whether two folders are the same, or one contains the other.

    Args:
        one: A path or URL.
        other: Another one, in the same form: both absolute, or relative to the same folder.
    """
    first, second = (posixpath.normpath(path) + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


class CutsSection(Section):
    """Section of a pipeline's file about consistent cuts.

    Attributes:
        cuts: Consistent cuts of this table and others of its database.
    """

    cuts: Cuts | None = None

    def check(self, pipeline: Pipeline) -> None:
        """Refuse cuts without the position of changes, or at a path that is used otherwise.

        Called when a pipeline's file is loaded.

        Raises:
            ValueError: Says which field is missing, or which path overlaps.
        """
        if (cuts := self.cuts) is None:
            return
        last, sink = pipeline.sources[-1], pipeline.sink
        position = last.envelope_column("position") if isinstance(last, KafkaSource) else None
        snapshots = [each.snapshot for each in pipeline.sources if each.snapshot is not None]
        lacking = None
        if sink.mode != "merge":
            lacking = f"`sink.mode: merge`; here it is `{sink.mode}`"
        elif sink.history is not None:
            lacking = "a table of the last version of each row, without `sink.history`"
        elif position is None or sink.order != [position]:
            lacking = "`sink.sequence` to be the column that `include` fills with `position`"
        elif not snapshots:
            lacking = "a source with `snapshot`, which says how the database is reached"
        elif len(snapshots) > 1:
            lacking = "a single `snapshot`, as logs of several databases have no order in common"
        elif not snapshots[0].log_reader:
            lacking = "`snapshot.connector`, the connector's URL in Kafka Connect"
        if lacking is not None:
            message = (
                f"`cuts` needs {lacking}: a cut is decided by the position of each change in the "
                "database's log. Declare that, or remove `cuts`."
            )
            raise ValueError(message)
        for field, path in {"sink.path": sink.path, "state": pipeline.state}.items():
            if overlap(cuts.path, path):
                message = (
                    f"`cuts.path: {cuts.path}` overlaps `{field}: {path}`. Give the table of the "
                    "cuts a folder of its own."
                )
                raise ValueError(message)
