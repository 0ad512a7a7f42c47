"""Scaffolder for ``dg scaffold defs``: a pipeline's folder, ready to be edited and loaded."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, Field

from hybrid_extensions.starter.detection import detect
from hybrid_extensions.starter.written_pipeline import (
    EXAMPLE,
    StarterOptions,
    some_files,
    write_starter,
)
from sources.errors import InputError

_IN_CODE = """\
import dagster as dg
from orchestration.component import HybridPipeline


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> HybridPipeline:
    return HybridPipeline(pipeline="{pipeline}")
"""


class ScaffoldParams(BaseModel):
    """Options of ``dg scaffold defs``, which are those of ``hybrid init``.

    Attributes:
        files: Glob of history's files, relative to the present folder. Without it the pipeline is
            an example to edit, with a topic.
        topic: Topic that continues where the files end; None for none, or in the example for a
            topic of the folder's name.
        servers: Brokers of the topic, or ``local`` for the broker of ``hybrid broker``.
        event_time: Event-time column; by default it is detected in the files.
        key: Columns that identify a row; by default they are detected in the files.
    """

    files: str | None = None
    topic: str | None = None
    servers: str = "local"
    event_time: str | None = None
    key: list[str] = Field(default_factory=list)


class PipelineScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Scaffolder of a pipeline's component: ``defs.yaml`` and the files of ``hybrid init``.

    The pipeline has the name of the folder. Its table and its state are below the project's root,
    not among the code.
    """

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return the model of the options, by which Dagster reads the command line."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the component's folder: ``defs.yaml`` or ``component.py``, and the pipeline's own.

        Called by Dagster, which has created the folder.

        Args:
            request: Folder, format of the component's own file, and options.

        Raises:
            InputError: No file of history can be read, or its event time is not detected. The
                folder is removed then, if it is empty.
        """
        folder = request.target_path.absolute()
        try:
            _write_pipeline(folder, request.project_root, request.params)
        except InputError:
            # An empty folder would keep the next attempt from using the name.
            if not any(folder.iterdir()):
                folder.rmdir()
            raise
        pipeline = f"{folder.name}.yaml"
        if request.scaffold_format == "yaml":
            dg.scaffold_component(request, {"pipeline": pipeline})
        else:
            (folder / "component.py").write_text(_IN_CODE.format(pipeline=pipeline))


def _write_pipeline(folder: Path, root: Path | None, params: ScaffoldParams) -> None:
    """Write the pipeline's file, its transform and its audit query."""
    home = Path(os.path.relpath(root or folder, folder))
    if params.files is None:
        files = str(home / "data/**/*.parquet")
        topic: str | None = params.topic or folder.name
        found = replace(
            EXAMPLE,
            event_time=params.event_time or EXAMPLE.event_time,
            key=params.key or EXAMPLE.key,
        )
    else:
        first, *others = some_files(Path.cwd(), params.files)
        found = detect(first, params.event_time, params.key, others)
        files, topic = os.path.relpath(params.files, folder), params.topic
    options = StarterOptions(folder.name, files, topic, params.servers, home=home)
    write_starter(folder, options, found)
