"""Where a Kafka source starts, and what that would lose or repeat.

Belongs here: the offset at which each partition starts, when there is a gap and what is missing,
how much is read twice, and when event times look shifted by a time zone.
"""
