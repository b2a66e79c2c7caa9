from __future__ import annotations

import numpy as np

from dalenius.model.problem import BucketSetting
from dalenius.solve.caps import Instance
from dalenius.solve.nearby import round_nearby
from dalenius.solve.relaxation import Relaxation, relax
from tests.problems import acs


def test_roundings_hold_every_record_and_keep_every_cut() -> None:
    for column, theta in (("Education", 2), ("Education", 32), ("Occupation", 2)):
        instance = Instance(acs(column, 300, theta))
        relaxed = relax(instance)
        assert isinstance(relaxed, Relaxation)
        used = np.flatnonzero(relaxed.buckets > 1e-9)
        matrix, sizes = relaxed.master.matrix(used), relaxed.master.sizes[used]
        rights = np.asarray([row.right for row in relaxed.master.rows])
        points = round_nearby(instance, matrix, rights, sizes, relaxed.buckets[used])
        assert points
        losses = []
        for point in points:
            assert min(point) >= 0
            assert np.asarray(point) @ sizes == instance.total
            assert (matrix @ np.asarray(point) >= rights).all()
            losses.append(BucketSetting.of(zip(sizes.tolist(), point, strict=True)).loss)
        assert losses == sorted(losses)
        assert losses[0] >= relaxed.bound.bound


def test_nothing_to_round() -> None:
    instance = Instance(acs("Education", 300, 8))
    none = np.zeros(0, dtype=np.int64)
    assert round_nearby(instance, none.reshape(0, 0), none, none, np.zeros(0)) == []
