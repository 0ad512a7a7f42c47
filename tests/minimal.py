"""What every pipeline has to declare: tests of one part of it add that part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.pipeline import Pipeline
from tests.extensions import skip_without_those_of


def minimal_declaration(*sources: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The declaration of a pipeline; skips the test if its sources need what is lacking.

    Args:
        sources: Its sources, in order.
        fields: Further fields, and those that are other than usual.
    """
    skip_without_those_of({"sources": [each for each in sources if isinstance(each, Mapping)]})
    return {
        "name": "orders",
        "event_time": "at",
        "sources": list(sources),
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        **fields,
    }


def minimal_model(*sources: Mapping[str, Any], **fields: Any) -> Pipeline:
    """Such a declaration as it is validated, without a file."""
    return Pipeline.model_validate(minimal_declaration(*sources, **fields))


def minimal_pipeline(folder: Path, *sources: Mapping[str, Any], **fields: Any) -> LoadedPipeline:
    """Such a declaration as it is loaded from a file in a folder, which has the pipeline's name."""
    declared = minimal_declaration(*sources, **fields)
    path = folder / f"{declared['name']}.yaml"
    path.write_text(yaml.safe_dump(declared))
    return load_pipeline(path)
