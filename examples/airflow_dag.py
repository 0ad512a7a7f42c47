"""The chain of ``flight_events`` as an Airflow DAG: a task for each step, and a watch after them.

For Airflow 3 with the provider in ``integrations/airflow``; copy it into the DAGs folder. Workers
and triggerer need the command ``hybrid``, of any environment, and the pipeline's folder. Tasks may
be retried or cleared at any time. A live run that died fails ``watch``, and the next run of the DAG
starts it again.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, chain
from hybrid_airflow.operators import HybridLiveSensor, HybridStepOperator

with DAG(
    "flight_events",
    start_date=datetime(2024, 1, 1),  # noqa: DTZ001 - Airflow takes it for UTC
    schedule=timedelta(minutes=10),
    catchup=False,
    max_active_runs=1,
    default_args={
        "pipeline": os.environ.get("PIPELINE", "/opt/pipelines/flight_events.yaml"),
        "command": os.environ.get("HYBRID", "hybrid"),
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
    },
):
    chain(
        HybridStepOperator(step="plan"),
        HybridStepOperator(step="history"),
        HybridStepOperator(step="live_handover"),
        # DAGs with `schedule=[Asset("flight_events")]` run once the table is live.
        HybridStepOperator(step="live", outlets=[Asset("flight_events")]),
        HybridLiveSensor(task_id="watch", watch_for=timedelta(hours=1)),
    )
