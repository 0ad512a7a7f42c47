"""Spark job that reads sources of a pipeline in one driver, in order; its exit statuses.

It continues from each source to the next by itself (:mod:`spark_jobs.inside.driver.warm_switch`).

Started by ``spark-submit``, also by hand::

    spark-submit spark_jobs/job.py --pipeline pipeline.yaml --source history --launch-id by-hand

Exit status 0: finished (bounded) or stopped (unbounded); 1: failed; 2: invalid input or state;
3: a bounded run was stopped before its end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

import pyspark

from sources.config.loader import load_for_job
from sources.errors import HybridError
from spark_jobs.inside.driver.pipeline_run import PipelineRun
from spark_jobs.jvm.spark_version import require_launched


def main(arguments: list[str]) -> int:
    """Read the named sources in order in this driver; return its exit status.

    SIGTERM and SIGINT stop the run after what it has committed.

    Args:
        arguments: Command line: ``--pipeline FILE``, ``--source NAME`` once for each source to be
            read in turn, ``--launch-id ID``; ``--generation NAME``, which the launch is for; and
            ``--spark VERSION`` if the launch knows for which Spark it chose the JVM parts.

    Returns:
        Exit status: 0 finished or stopped, 2 an error of this project, such as invalid input or
        state, 3 a bounded run was stopped before its end.
    """
    parser = argparse.ArgumentParser(description="Read sources of a pipeline, one by one.")
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--launch-id", required=True)
    parser.add_argument("--generation")
    parser.add_argument("--spark")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run = PipelineRun(options.source, options.launch_id, stop, generation=options.generation)
    try:
        require_launched(pyspark.__version__, options.spark)
        return run.run(load_for_job(options.pipeline))
    except HybridError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
