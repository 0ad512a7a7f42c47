"""Declaration of lineage: events about which data is read and written, for a data catalog."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sources.common.fields import Declared
from sources.common.optional import require_extra
from sources.config.section import Section


class Lineage(Declared):
    """OpenLineage events of the pipeline's steps (https://openlineage.io/spec/).

    Where they go, and with which login, is configured for OpenLineage's client: ``OPENLINEAGE_URL``
    and ``OPENLINEAGE_API_KEY``, other ``OPENLINEAGE__…`` variables, or ``openlineage.yml``.

    Attributes:
        namespace: Namespace of the jobs, such as ``prod``.
    """

    namespace: str = Field(min_length=1)


class LineageSection(Section):
    """Section of a pipeline's file about lineage.

    Attributes:
        lineage: OpenLineage events of the steps, for a catalog of data.
    """

    takes_inputs: ClassVar[bool] = True
    lineage: Lineage | None = None

    def require_extras(self) -> None:
        """Refuse ``lineage`` without OpenLineage's client.

        Raises:
            InputError: Names the extra.
        """
        if self.lineage is not None:
            require_extra("lineage", "`lineage`")
