"""Test data of other projects: right, or refused by name; no crash, no silent difference."""
