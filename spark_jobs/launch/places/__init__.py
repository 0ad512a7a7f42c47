"""Places where drivers run, with a launcher for each.

Belongs here: a launcher for each place (this machine, a driver that pipelines share, clusters and
managed services of extensions) behind one interface (`base`), and the choice of one (`choice`).
Does not belong here: what is submitted (`launch.submission`), and runs of pipelines
(`launch.runs`).
"""
