"""Launch of Spark applications: start them, find them again, watch and stop them.

Belongs here: which launch counts and which driver is refused; the record of a launch
(`launch_record`), finding and launching runs (`runs`), the driver that waits for its run
(`waiting_driver`), what is known of a launched driver (`driver_state`), and the handle of a run
that is watched (`watched_run`); in rooms of their own, where drivers run (`places`), what is
submitted (`submission`), and what Spark is asked while a plan is made (`questions`). Importable
without PySpark. Does not belong here: what the driver does (`inside`).
"""
