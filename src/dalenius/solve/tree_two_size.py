"""The first valid position of two sizes where groups of values have limits: the intervals of `two_size.py` carry over.

With sizes 1 and 2, H_v(J) the most records under node v that the sizes in J take (`set_cuts.py`) and u_vj = cap[v, S_j]
b_j, a setting is valid iff for every value  u_1 + u_2 >= o,  and for every group and the root (u_j = S_j b_j)

    u_1 + u_2 >= o,    sum of H(1) over the children + u_2 >= o,    sum of H(2) over the children + u_1 >= o.

u_j is linear in the position k, and H(j) is a minimum of sums of such: concave. So each condition holds on an interval
of k, and all of them do. Its left end is found by Newton's method from the left: where a condition fails at k, so it
does up to the root of the line that touches it there; and where that line falls, it fails for good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalenius.solve.caps import Instance, Integers, Mask
from dalenius.solve.forest import Forest


@dataclass(frozen=True, eq=False)
class _Line:
    """A condition at some position: by how much it holds, and what a step to the next position adds at most."""

    spare: Integers
    gain: Integers


def first_valid_of_groups(
    instance: Instance,
    forest: Forest,
    sizes: tuple[Integers, Integers],
    first: tuple[Integers, Integers],
    steps: tuple[Integers, Integers],
    last: Integers,
) -> Integers:
    """The first valid position of each pair of sizes, or -1.

    At position k there are first[j] + k * steps[j] buckets of size j, for k from 0 to `last`.
    """
    position: Integers = np.where(last >= 0, 0, -1)
    caps = [np.concatenate([instance.caps(size), instance.needs(size)[None, :]]) for size in sizes]
    active = np.flatnonzero(position >= 0)
    counts = np.asarray(forest.sums(instance.counts))
    while active.size:
        buckets = [first[j] + position * steps[j] for j in (0, 1)]
        rooms = [_Line(caps[j][:, active] * buckets[j][active], caps[j][:, active] * steps[j][active]) for j in (0, 1)]
        low, dead = _next_positions(_conditions(forest, counts, rooms))
        moved = position[active] + low
        dead |= moved > last[active]
        position[active] = np.where(dead, -1, moved)
        active = active[~dead & (low > 0)]
    return position


def _conditions(forest: Forest, counts: Integers, rooms: list[_Line]) -> list[_Line]:
    """All conditions, one row a node."""
    inner = np.arange(forest.values, forest.root + 1)
    both = _Line(rooms[0].spare + rooms[1].spare - counts[:, None], rooms[0].gain + rooms[1].gain)
    lines = [_Line(both.spare[:-1], both.gain[:-1])]  # the root's holds by itself
    for j in (0, 1):
        below, other = _filled(forest, counts, rooms[j]), rooms[1 - j]
        spare = below.spare[inner] + other.spare[inner] - counts[inner, None]
        lines.append(_Line(spare, below.gain[inner] + other.gain[inner]))
    return lines


def _filled(forest: Forest, counts: Integers, room: _Line) -> _Line:
    """For each group and the root, the sum of H of one size over its children; H itself for values."""
    values = forest.values
    most, gain = np.empty_like(room.spare), np.empty_like(room.gain)
    below = _Line(np.zeros_like(room.spare), np.zeros_like(room.gain))
    most[:values] = np.minimum(room.spare[:values], counts[:values, None])
    gain[:values] = np.where(room.spare[:values] < counts[:values, None], room.gain[:values], 0)
    for depth in forest.depths:
        parents = depth.parents
        below.spare[parents] = np.add.reduceat(most[depth.nodes], depth.starts, axis=0)
        below.gain[parents] = np.add.reduceat(gain[depth.nodes], depth.starts, axis=0)
        narrow = room.spare[parents] < below.spare[parents]
        most[parents] = np.where(narrow, room.spare[parents], below.spare[parents])
        gain[parents] = np.where(narrow, room.gain[parents], below.gain[parents])
    return below


def _next_positions(lines: list[_Line]) -> tuple[Integers, Mask]:
    """How far each pair has to move on, 0 if all conditions hold; and which pairs have no valid position further on."""
    moves = np.zeros(lines[0].spare.shape[1], dtype=np.int64)
    dead = np.zeros(len(moves), dtype=np.bool_)
    for line in lines:
        fails = line.spare < 0
        dead |= (fails & (line.gain <= 0)).any(axis=0)
        needed = np.where(fails & (line.gain > 0), -(line.spare // np.maximum(line.gain, 1)), 0)
        moves = np.maximum(moves, needed.max(axis=0, initial=0))
    return moves, dead
