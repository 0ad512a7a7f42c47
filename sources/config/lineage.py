"""Declaration of lineage: events about which data is read and written, for a data catalog."""

from __future__ import annotations

from pydantic import Field

from sources.common.fields import Declared


class Lineage(Declared):
    """OpenLineage events of the pipeline's steps (https://openlineage.io/spec/).

    Where they go, and with which login, is configured for OpenLineage's client: ``OPENLINEAGE_URL``
    and ``OPENLINEAGE_API_KEY``, other ``OPENLINEAGE__…`` variables, or ``openlineage.yml``.

    Attributes:
        namespace: Namespace of the jobs, such as ``prod``.
    """

    namespace: str = Field(min_length=1)
