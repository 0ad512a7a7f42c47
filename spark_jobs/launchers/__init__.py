"""Where a run goes: to a process of this machine, to YARN, to Kubernetes."""
