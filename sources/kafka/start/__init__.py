"""Where a Kafka source starts, and what that would lose or repeat."""
