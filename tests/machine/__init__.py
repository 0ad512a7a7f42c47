"""A machine that plays people: random commands, damage and data, and one invariant after each."""
