"""Requirements of a pipeline's declaration: the optional packages (extras) that it needs."""

from __future__ import annotations

from collections.abc import Iterable

from sources.common.optional import require_extra
from sources.config.pipeline import Pipeline
from sources.config.section import Section


def require_extras(pipeline: Pipeline, sections: Iterable[Section] = ()) -> None:
    """Refuse a pipeline that needs an extra which is not installed.

    Called before any data is looked at, so that no run fails half-way for the want of a package.

    Args:
        pipeline: The declaration.
        sections: What the file declares for extensions.

    Raises:
        InputError: A package can't be imported; names the source, the field, and the extra of this
            project that installs it.
    """
    for section in sections:
        section.require_extras()
    service = pipeline.spark.managed_by
    if service is not None and service.extra is not None:
        require_extra(service.extra, f"`master: {service.scheme}://…`")
    for source in pipeline.sources:
        for extra, needing in source.extras:
            require_extra(extra, f"Source `{source.name}`: {needing}")
