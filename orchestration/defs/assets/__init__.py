"""Assets of a pipeline in Dagster."""
