"""The chain of ``flight_events`` as an Airflow DAG: each step of the chain is a task.

For Airflow 3 with its standard provider; copy it into the DAGs folder. The workers need this
project, ``hybrid`` in their path, and the folder of the pipeline at ``PIPELINE``. A step that is
complete does nothing when it is run again, so a task may be retried or cleared at any time. The
live run outlives its task: ``watch`` fails when it is dead, stuck or late, and the next ``live``
starts it again.
"""

import os
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

PIPELINE = os.environ.get("PIPELINE", "/opt/pipelines/flight_events.yaml")
STEPS = ["plan", "history", "live_handover", "live"]

with DAG(
    "flight_events",
    start_date=datetime(2024, 1, 1),  # noqa: DTZ001 - Airflow takes it for UTC
    schedule=timedelta(minutes=10),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as dag:
    done = None
    for step in STEPS:
        task = BashOperator(task_id=step, bash_command=f"hybrid step {PIPELINE} {step} --json")
        if done is not None:
            done >> task
        done = task
    watch = BashOperator(task_id="watch", bash_command=f"hybrid status {PIPELINE} --json")
    done >> watch
