"""What a catalog shows about the target table: owners, tags, descriptions, freshness."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from sources.common.durations import Duration
from sources.common.fields import Declared, Name

Owner = Annotated[str, Field(pattern=r"^(team:\S.*|[^@\s]+@[^@\s]+)$")]
"""An owner as Dagster knows them: ``team:`` and a name, or an e-mail address."""


class About(Declared):
    """What people should know of the table; shown in Dagster, without effect on the data.

    Attributes:
        description: What a row of the table is, in Markdown.
        owners: Who answers for it: ``team:analytics``, or an e-mail address.
        tags: Labels by which pipelines are found in a large catalog, such as ``domain: sales``.
        columns: Descriptions of columns of the table, by name.
        group: Group that shows the table with those of other pipelines; what makes it, from the
            snapshot to the live run, is then in the group ``<group>_steps``. By default all of it
            is in a group with the pipeline's name.
        fresh_within: Longest time without a new version of the table. After it Dagster shows the
            table as stale, even if there was no input; without it the table has no such limit.

    """

    description: str = ""
    owners: list[Owner] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    group: Name | None = None
    fresh_within: Annotated[Duration, Field(ge=timedelta(minutes=1))] | None = None
