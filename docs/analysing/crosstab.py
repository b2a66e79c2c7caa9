import pandas as pd

import dalenius

release = dalenius.load("release")
table = release.crosstab("age", "disease", bins={"age": [30, 50, 70]}, seed=1)
print(table.table.round().astype(int).to_string())
print()
print(table.tidy().head(3).round().to_string(index=False))
print()

people = pd.read_parquet("people.parquet")  # the truth, which an analyst does not have
true = pd.crosstab(pd.cut(people["age"], [0, 30, 50, 70, 100], right=False), people["disease"]).to_numpy()
held = (table.low <= true) & (true <= table.high)
print(f"{held.to_numpy().mean():.0%} of the intervals hold the truth")
