"""Presentation in Dagster: metadata, cards, errors and hints."""
