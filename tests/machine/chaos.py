"""Many sequences of the machine, by two processes for each core, which mostly wait; a summary.

python -m tests.machine.chaos --sequences 2000 --spark-sequences 40 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path


def main() -> int:
    """Run the machine in several processes with different seeds; print what they did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--spark-sequences", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number in range(options.processes):
            environment = {
                **os.environ,
                "HYBRID_SEQUENCES": str(-(-options.sequences // options.processes)),
                "HYBRID_SPARK_SEQUENCES": str(-(-options.spark_sequences // options.processes)),
                "HYBRID_SEED": str(options.seed + number),
                "HYBRID_COUNTS": folder,
            }
            command = [sys.executable, "-m", "pytest", "tests/machine/test_people.py", "-q"]
            started.append(subprocess.Popen(command, env=environment))
        # Interrupted, it tells what was done until then.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            statuses = [each.wait() for each in started]
            end = "wrong" if any(statuses) else "0 wrong"
        except KeyboardInterrupt:
            for each in started:
                each.terminate()
            statuses = [max(each.wait(), 0) for each in started]
            end = "interrupted"
        for kind in ("People", "PeopleWithSpark"):
            counts: Counter[str] = Counter()
            for path in sorted(Path(folder).glob(f"{kind}-*.json")):
                counts.update(json.loads(path.read_text()))
            steps = sum(count for name, count in counts.items() if name.startswith("step "))
            sys.stdout.write(f"\n{kind}: {counts['sequences']:,} sequences, {steps:,} steps\n")
            for name, count in sorted(counts.items()):
                sys.stdout.write(f"{count:>10,} {name}\n")
    sys.stdout.write(f"seeds from {options.seed}; {end}\n")
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
