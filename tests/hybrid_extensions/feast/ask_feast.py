"""Run by Feast's own Python: features of labels, and those served for keys, as Parquet and JSON."""

import json
import sys
from datetime import UTC, datetime

import ibis
import pandas as pd
from deltalake import DeltaTable
from feast import FeatureStore

# Feast's way downloads DuckDB's extension for Delta, which a test may have no network for.
ibis.read_delta = lambda path: ibis.memtable(DeltaTable(path).to_pyarrow_table())
_, repository, labels, out, view, *features = sys.argv
store = FeatureStore(repository)
names = [f"{view}:{each}" for each in features]
rows = store.get_historical_features(entity_df=pd.read_parquet(labels), features=names).to_df()
rows.to_parquet(out)
store.materialize(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
served = store.get_online_features(features=names, entity_rows=[{"shop": "a"}, {"shop": "b"}])
json.dump(served.to_dict(), sys.stdout, default=str)
