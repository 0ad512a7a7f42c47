"""Declaration of what concerns the target table: sink, rules, upkeep, reruns, comparisons."""
