"""What the buckets of one size group hold, for tests: one row a value, one column a bucket."""

from __future__ import annotations

import numpy as np

from dalenius.model.problem import BucketSetting, Partition
from dalenius.place.slots import values_by_bucket


def bucket_contents(quotas: np.ndarray, buckets: int) -> np.ndarray:
    partition = Partition(
        BucketSetting.of([(int(quotas.sum()) // buckets, buckets)]), tuple((int(quota),) for quota in quotas)
    )
    contents = np.zeros((len(quotas), buckets), dtype=int)
    for numbers, values in values_by_bucket([partition], 1000):
        np.add.at(contents, (values, numbers - 1), 1)
    return contents
