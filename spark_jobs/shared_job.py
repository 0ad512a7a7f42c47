"""Spark job of a driver that pipelines share; launches start it, people never do.

Exit status 0: it had no pipeline to run for 60 s, or was asked to end; 1: its JVM has ended, or a
run has not stopped within 60 s of that.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from sources.extensions import required


def main(arguments: list[str]) -> int:
    """Run the driver that pipelines share, until it has had no pipeline for 60 s or is ended.

    SIGTERM and SIGINT end it: its runs are stopped, and waited for up to 60 s.

    Args:
        arguments: Command line: ``--folder FOLDER`` of the driver, ``--settings JSON``,
            ``--started-by PIPELINE``.

    Returns:
        Exit status, 0. If the JVM has ended, or runs have not stopped in those 60 s, it does not
        return: the process exits at once, with 1.

    Raises:
        InputError: No installed extension runs shared drivers, or one can't be loaded.
    """
    parser = argparse.ArgumentParser(description="Run pipelines that share a driver.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--started-by", required=True)
    options = parser.parse_args(arguments)
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    serve = required("shared_job", "runs shared drivers", "declare `driver: own`")
    return int(serve(options.folder, options.settings, options.started_by, end))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
