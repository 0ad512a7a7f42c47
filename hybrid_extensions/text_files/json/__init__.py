"""JSON lines as files: blocks by Arrow, single objects by Python."""
