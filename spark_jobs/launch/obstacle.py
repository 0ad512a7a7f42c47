"""Obstacle to a run's writes: a folder on this machine that is full, read-only or gone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from sources.storage.folder import Folder


def find_obstacle(loaded: LoadedPipeline, generation: Generation) -> str | None:
    """Return the obstacle that keeps a run from writing now, as a phrase; None if none is known.

    Such as "the disk of the target folder /lake/orders is full". Looked at are the folders on this
    machine that a run writes: its state, in which the checkpoint and the log are, its target, and
    temporary files of a driver that is launched here.

    Args:
        loaded: The pipeline.
        generation: State of the generation that the run computes.
    """
    folders: list[Folder] = [
        generation,
        loaded.target.called("target folder").existing(),
    ]
    if loaded.pipeline.spark.deploy_mode == "client":
        try:
            declared = loaded.pipeline.spark.conf.get("spark.local.dir") or tempfile.gettempdir()
        except FileNotFoundError as error:
            # Python tries to write a file in each folder that it knows of.
            return f"temporary files can't be written: {error.strerror}"
        temporary = (Folder(Path(each)) for each in declared.split(","))
        folders += [each.called("folder for temporary files").existing() for each in temporary]
    return next(filter(None, (each.obstacle() for each in folders)), None)
