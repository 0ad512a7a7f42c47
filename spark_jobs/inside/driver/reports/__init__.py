"""What a driver reports while it runs: heartbeat, progress, numbers, late rows."""
