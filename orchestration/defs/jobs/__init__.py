"""Jobs of a pipeline in Dagster, their forms and schedules."""
