"""Launch lock of a driver that is started before the lock is taken for it."""

from __future__ import annotations

import os
from pathlib import Path

from hybrid_extensions.waiting_drivers.inherited_file import UnnamedFile
from sources.state.generation import Generation
from spark_jobs.run_state.driver_lock import launch_lock_path
from spark_jobs.run_state.lock import FileLock, Lock, open_lock, take_opened


class InheritedLock:
    """File of a launch lock that a driver inherits at its start, before the lock is taken for it.

    Args:
        place: The pipeline's folder in the state folder; it need not exist.
        generation: State folder of the generation, on a file system; None if there is none yet.

    Raises:
        OSError: The state folder can't be written, or its file system has no unnamed files.
    """

    def __init__(self, place: Path, generation: Generation | None) -> None:
        self._unnamed = UnnamedFile(place) if generation is None else None
        if self._unnamed is not None:
            self.descriptor = self._unnamed.descriptor
        elif generation is not None:
            self.descriptor = open_lock(Path(launch_lock_path(generation)))

    def take(self, generation: Generation) -> Lock | None:
        """Take the launch lock of a generation, which the driver's inherited file then holds, too.

        None if another process launches, or has created a generation that did not exist before, or
        if the file is not that of the lock any more.
        """
        path = Path(launch_lock_path(generation))
        if not take_opened(self.descriptor):
            return None
        try:
            if self._unnamed is not None:
                self._unnamed.name(path)
            is_its = os.path.samestat(os.fstat(self.descriptor), path.stat())
        except OSError:
            return None
        return FileLock(self.descriptor) if is_its else None
