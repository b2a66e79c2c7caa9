"""Laplace noise from OpenDP. Only this module knows it.

OpenDP's Laplace mechanism on floating-point numbers is continuous noise as far as such numbers allow: it samples
exactly on the grid of their smallest distance. It takes its bits from the operating system, so there is no seed.
A draw takes some 40 microseconds, so one vector of noise serves all groups (`ratio` says why that is right).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.errors import MissingExtraError

Floats = npt.NDArray[np.float64]

_FEATURE = "contrib"  # OpenDP's name for mechanisms whose proofs are not all reviewed


@dataclass(frozen=True)
class Noise:
    """Independent draws of the noise of both counts under one epsilon."""

    epsilon: float
    of_size: Floats
    of_count: Floats


def require_opendp() -> Any:
    """OpenDP's modules, or an error that says what to install."""
    try:
        import opendp.prelude as opendp
    except ImportError:
        raise MissingExtraError.of("OpenDP, which draws the noise,", "dp") from None
    return opendp


def draw(epsilon: float, draws: int) -> Noise:
    """`draws` pairs of noise of scale 1/ε."""
    noise = laplace(scale(epsilon), 2 * draws)
    return Noise(epsilon, noise[:draws], noise[draws:])


def laplace(width: float, draws: int) -> Floats:
    """Independent draws of the density exp(-|t|/b) / 2b."""
    opendp = require_opendp()
    from opendp.mod import GLOBAL_FEATURES

    ours = _FEATURE not in GLOBAL_FEATURES
    if ours:
        opendp.enable_features(_FEATURE)
    try:
        numbers = opendp.vector_domain(opendp.atom_domain(T=float, nan=False))
        mechanism = opendp.m.make_laplace(numbers, opendp.l1_distance(T=float), width)
        return np.asarray(mechanism([0.0] * draws), dtype=np.float64)
    finally:
        if ours:
            opendp.disable_features(_FEATURE)


def scale(epsilon: float) -> float:
    """b = 1/ε: a person changes a count by at most 1."""
    return 1.0 / epsilon
