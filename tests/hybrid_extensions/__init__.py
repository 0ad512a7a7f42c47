"""Tests of extensions, one package each."""
