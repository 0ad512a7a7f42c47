"""Declared training sets: Delta tables of labels with features, computed by ranges of label times.

Belongs here: what a declaration says, which ranges are up to date, and the computation of those
that are not. Does not belong here: how Dagster shows them (`hybrid_extensions.training.dagster`).
"""
