"""Whether tests notice when a rule is changed: mutants of the rules that no row may be lost by."""
