"""Files with `tables`: the pipelines that one makes for the tables of a database."""
