"""Checks of a pipeline's table in Dagster."""
