"""Reports of a running driver: heartbeat, progress, measurements, late rows."""
