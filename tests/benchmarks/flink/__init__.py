"""Tests of the benchmark beside Flink; Flink itself does not run here, as CI has no Maven."""
