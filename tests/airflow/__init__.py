"""Tests of `integrations/airflow` and of the DAG in `examples`, in a real Airflow."""
