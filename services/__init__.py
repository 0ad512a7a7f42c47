"""Real servers for a laptop and for tests: they start on free ports and leave nothing behind."""
