"""Declaration of consistent cuts: versions of tables that are the database as of one commit."""

from __future__ import annotations

import posixpath
from datetime import timedelta

from sources.common.fields import Declared, Duration


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
    """Return whether two folders are the same, or one is inside the other.

    Args:
        one: A path or URL.
        other: Another one, in the same form.
    """
    first, second = (posixpath.normpath(path) + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)
