"""Reports of a running driver: heartbeat, progress, measurements, late rows.

Belongs here: what a heartbeat says and how often, how many late rows of history end a run, and when
the broker is asked.
"""
