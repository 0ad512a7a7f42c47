"""The chain end to end: launch, order, switch, cancel, failures."""
