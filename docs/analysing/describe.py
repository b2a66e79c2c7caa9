import numpy as np
import pandas as pd

import dalenius

rng = np.random.default_rng(2)
age, sector = rng.integers(20, 65, 8_000), rng.choice(["private", "public"], 8_000)
income = np.exp(9.9 + 0.012 * age + 0.15 * (sector == "private") + rng.normal(0, 0.35, 8_000)).round(-1)
workers = pd.DataFrame({"age": age, "sector": sector, "income": income.astype(int)})
release = dalenius.publish(
    workers,
    {"odds": 4, "grouping": {"quantiles": 8}},
    sensitive="income",
    quasi_identifiers=["age", "sector"],
    seed=1,
)

found = release.describe("income", by="age", bins={"age": [35, 50]}, quantiles=[0.5], seed=1)
print(found.round(0).to_string(index=False))
true = workers.groupby(pd.cut(workers["age"], [20, 35, 50, 65], right=False), observed=True)["income"]
print(true.agg(["mean", "median"]).round(0))
print()

model = release.fit("np.log(income) ~ age + C(sector)", family="linear", seed=1)
print(model.summary()[["estimate", "low", "high"]].round(3))
