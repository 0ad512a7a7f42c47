"""Declaration of what concerns the target table: sink, rules, reruns, comparisons."""
