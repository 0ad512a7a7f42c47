"""Runs a command, waits for all its descendants, and reports what they cost.

    python -m benchmarks.flink.whole_process REPORT COMMAND…

Descendants that outlive their parents become children of this process, so that the kernel adds up
the CPU time of all of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import adopt_orphans


def main() -> int:
    """Run the command; return its exit status."""
    report, *command = sys.argv[1:]
    adopt_orphans()
    started, status = time.monotonic(), 1
    main_process = subprocess.Popen(command)
    with suppress(ChildProcessError):
        # Also those that end before the command does: as zombies they would count as running.
        while True:
            pid, code = os.wait()
            if pid == main_process.pid:
                status = os.waitstatus_to_exitcode(code)
    seconds = time.monotonic() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    document = {"seconds": seconds, "cpu_s": usage.ru_utime + usage.ru_stime}
    Path(report).write_text(json.dumps(document))
    return status


if __name__ == "__main__":
    sys.exit(main())
