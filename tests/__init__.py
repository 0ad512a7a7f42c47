"""Tests of ``."""
