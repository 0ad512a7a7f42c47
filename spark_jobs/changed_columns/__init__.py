"""Computing only the columns that another transform returns otherwise, over the serving table.

The new generation gets the rows of one version of the serving table, which holds exactly what the
serving generation's checkpoint says. Columns that stay are copied as they are in the Parquet files,
without being decoded; the others are computed from columns of the table. The state of the serving
generation as of that version comes with them, so the live run continues right after it.

Optional: the chain computes the same from its sources without this package. What the transform
returns for live rows does not belong here.
"""
