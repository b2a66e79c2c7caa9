"""The fill constraint on one size: how many buckets of size S can be filled at all.

Buckets of size S can be filled only if g(b) = sum_i min(c_i b, o_i) - S b >= 0, with c_i = cap[i, S] (FC in the
paper's Theorem 3). The other sizes of a setting do not enter, g is concave and g(0) = 0, so FC holds exactly for
b <= bmax(S).
"""

from __future__ import annotations

import numpy as np

from dalenius.solve.caps import Integers


def most_buckets(caps: Integers, counts: Integers, sizes: Integers) -> Integers:
    """bmax(S) for every size at once, at most n // S. All three are in the same units (`Instance.needs` for sizes).

    Newton's method from the right on the concave, piecewise linear g. At b, with I = {i : c_i b >= o_i}, the line
    through g is  o(I) + (c(not I) - S) b,  and its root is where every solution b' with g(b') >= 0 must end:
    b' <= o(I) / (S - c(not I)). Each step is an integer division; a handful of steps suffice.
    """
    total = int(counts.sum())
    buckets = total // sizes
    active = np.arange(len(sizes))
    while active.size:
        taken = caps[:, active] * buckets[active]
        saturated = taken >= counts[:, None]
        filled = np.where(saturated, counts[:, None], taken).sum(axis=0)
        short = filled < sizes[active] * buckets[active]
        active, saturated = active[short], saturated[:, short]
        supply = np.where(saturated, counts[:, None], 0).sum(axis=0)
        drain = sizes[active] - np.where(saturated, 0, caps[:, active]).sum(axis=0)
        buckets[active] = supply // drain
    return buckets
