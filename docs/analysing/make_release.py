import numpy as np
import pandas as pd

import dalenius

rng = np.random.default_rng(1)
number = 10_000
people = pd.DataFrame(
    {
        "age": rng.integers(18, 90, number),
        "gender": rng.choice(["F", "M"], number),
        "smoker": rng.choice(["no", "yes"], number, p=[0.7, 0.3]),
        "bmi": rng.normal(27, 4, number).round().astype(int),
    }
)
age, bmi = (people["age"] - 50) / 10, (people["bmi"] - 27) / 4
male, smoker = people["gender"] == "M", people["smoker"] == "yes"
shares = np.exp(
    pd.DataFrame(
        {
            "asthma": 0.1 - 0.25 * age + 0.5 * smoker,
            "cancer": -0.6 + 0.3 * age + 0.8 * smoker,
            "depression": 0.3 - 0.3 * age - 0.4 * male,
            "diabetes": -0.2 + 0.3 * age + 0.7 * bmi,
            "flu": 0.6 + 0 * age,
            "hip fracture": -1.2 + 0.5 * age - 0.7 * male - 0.5 * bmi,
        }
    )
)
below = shares.div(shares.sum(axis=1), axis=0).cumsum(axis=1).to_numpy()
people["disease"] = shares.columns[(rng.random(number)[:, None] > below).sum(axis=1)]
people.to_parquet("people.parquet")  # the truth, to compare with

dalenius.publish(
    people,
    {"odds": 3},
    sensitive="disease",
    quasi_identifiers=["age", "gender", "smoker", "bmi"],
    seed=1,  # so that you get the figures of this page; never publish a release with a seed
    out="release",
)
