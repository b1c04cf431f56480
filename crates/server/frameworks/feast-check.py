"""Feast's online store: rows are hashes."""

import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig
from feast.types import Float32, Int64

with tempfile.TemporaryDirectory() as folder:
    rows = Path(folder) / "rows.parquet"
    now = datetime.now(timezone.utc)
    frame = pandas.DataFrame(
        {
            "driver": range(50),
            "rating": [number / 10 for number in range(50)],
            "trips": range(100, 150),
            "at": [now] * 50,
        }
    ).astype({"rating": "float32"})
    frame.to_parquet(rows)
    config = RepoConfig(
        project="check",
        provider="local",
        registry=f"{folder}/registry.db",
        online_store={"type": "redis", "connection_string": f"127.0.0.1:{sys.argv[1]}"},
        entity_key_serialization_version=3,
    )
    store = FeatureStore(config=config)
    driver = Entity(name="driver", join_keys=["driver"])
    view = FeatureView(
        name="drivers",
        entities=[driver],
        ttl=timedelta(days=1),
        schema=[Field(name="rating", dtype=Float32), Field(name="trips", dtype=Int64)],
        source=FileSource(path=str(rows), timestamp_field="at"),
    )
    store.apply([driver, view])
    store.write_to_online_store("drivers", df=frame)
    found = store.get_online_features(
        features=["drivers:rating", "drivers:trips"],
        entity_rows=[{"driver": 7}, {"driver": 49}, {"driver": 999}],
    ).to_dict()
    assert found["trips"] == [107, 149, None], found
    store.teardown()
print("50 rows are written and read")
