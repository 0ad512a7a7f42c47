"""Tests of what feeds keep of their deliveries."""
