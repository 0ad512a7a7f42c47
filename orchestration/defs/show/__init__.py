"""What Dagster shows: metadata, cards, errors and hints."""
