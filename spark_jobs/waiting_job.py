"""Spark job of a driver that waits for its run; it ends with status 0 if it is given none.

Started by :mod:`spark_jobs.launch.waiting_driver`, never by hand. It answers the plan's questions,
then becomes :mod:`spark_jobs.job`. If it is given no run, or whoever started it ends, it ends with
exit status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
from pathlib import Path

from sources.errors import HybridError
from spark_jobs import job
from spark_jobs.analysis_job import answer
from spark_jobs.inside.driver.pipeline_run import only_session
from spark_jobs.launch.user_socket import connect


def main(command: list[str]) -> int:
    """Answer questions of the planner until this waiting driver is given a run, then run it.

    Args:
        command: Command line: ``--folder FOLDER``, the launch's folder for temporary files.

    Returns:
        Exit status: 0 without a run, else that of the run's job.
    """
    parser = argparse.ArgumentParser(description="Wait for the run of a pipeline.")
    parser.add_argument("--folder", type=Path, required=True)
    folder: Path = parser.parse_args(command).folder
    run = _wait(folder)
    if run is not None:
        arguments, environment = run
        os.environ.update(environment)
        return job.main(arguments)
    # Whoever started it may have been killed.
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _wait(folder: Path) -> tuple[list[str], dict[str, str]] | None:
    """Return arguments and environment variables of the job to run; None if there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as launcher:
            connect(launcher, folder)
            launcher.settimeout(None)
            spark = only_session()
            with launcher.makefile("r") as questions, launcher.makefile("w") as answers:
                for line in questions:
                    if line.startswith("["):
                        arguments, environment = json.loads(line)
                        return arguments, environment
                    answers.write(f"{answer(spark, line)}\n")
                    answers.flush()
    except (OSError, HybridError) as error:
        sys.stderr.write(f"This driver ends without a run: {error}\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
