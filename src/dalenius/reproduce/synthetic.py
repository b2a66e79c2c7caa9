"""A made-up table in the shape of the paper's CENSUS: its columns, its domain sizes, its sensitive frequencies.

It is a latent class model. Every person belongs to one of `CLASSES` walks of life, which lie on a line from 0 to 1 (how
much schooling they take). The class makes education, occupation, work class and age likely or unlikely, gender follows
occupation, marital status age, and the country of birth race. So occupation and education are associated with each
other and with all columns but race and country, which have nothing to do with them. Nobody in the table exists.

The margins of education and occupation are set: frequencies grow geometrically from the rarest to the most frequent
value of the paper's OCC-300K (0.18 % to 7.5 %) and EDU-300K (0.44 % to 27.3 %), and the table of class by value is
fitted to them by iterative proportional fitting. How frequent a value is has nothing to do with its place on the line.
Rows are independent, so the first n rows are a random sample for every n.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DOMAINS = {
    "Age": 76,
    "Gender": 2,
    "Education": 14,
    "Marital": 6,
    "Race": 9,
    "WorkClass": 10,
    "Country": 83,
    "Occupation": 50,
}
FREQUENCIES = {"Education": (0.0044, 0.273), "Occupation": (0.0018, 0.075)}
CLASSES = 24
SEED = 2012

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def census_shaped(rows: int, seed: int = SEED) -> pa.Table:
    """So many made-up people, each column as codes from 0."""
    chance = np.random.default_rng(seed)
    sizes = chance.dirichlet(np.full(CLASSES, 6.0))
    place = np.sort(chance.random(CLASSES))
    education = _fitted(sizes, place, margin(*FREQUENCIES["Education"], DOMAINS["Education"]), 0.10, chance)
    occupation = _fitted(sizes, place, margin(*FREQUENCIES["Occupation"], DOMAINS["Occupation"]), 0.08, chance)
    work = _fitted(sizes, place, margin(0.002, 0.65, DOMAINS["WorkClass"]), 0.25, chance)
    female = chance.beta(1.2, 1.2, DOMAINS["Occupation"])
    ages = _bell(DOMAINS["Age"], 12 + 24 * chance.random(CLASSES) + 8 * place, 13.0)

    person = chance.choice(CLASSES, rows, p=sizes)
    age = _drawn(ages, person, chance)
    job = _drawn(occupation, person, chance)
    race = chance.choice(DOMAINS["Race"], rows, p=margin(0.0006, 0.75, DOMAINS["Race"])[::-1])
    columns = {
        "Age": age,
        "Gender": (chance.random(rows) < female[job]).astype(np.int64),
        "Education": _drawn(education, person, chance),
        "Marital": _drawn(_marital(), np.minimum(age // 8, 8), chance),
        "Race": race,
        "WorkClass": _drawn(work, person, chance),
        "Country": _drawn(_countries(chance), race, chance),
        "Occupation": job,
    }
    return pa.table({name: pa.array(columns[name].astype(np.uint8)) for name in DOMAINS})


def margin(least: float, most: float, values: int) -> Floats:
    """Frequencies from `least` to `most` that sum to 1: least (most / least)^(t^a), t from 0 to 1, with the right a."""
    places = np.linspace(0.0, 1.0, values)
    low, high = 1e-3, 1e3
    for _ in range(200):  # the sum falls as a grows
        power = np.sqrt(low * high)
        frequencies = least * (most / least) ** (places**power)
        low, high = (power, high) if frequencies.sum() > 1 else (low, power)
    return np.asarray(frequencies / frequencies.sum())


def _fitted(sizes: Floats, place: Floats, wanted: Floats, width: float, chance: np.random.Generator) -> Floats:
    """Chances of each value in each class, more where their places on the line are near, with the margin `wanted`."""
    value_place = chance.permutation(np.linspace(0.0, 1.0, len(wanted)))
    joint = np.exp(-0.5 * ((place[:, None] - value_place) / width) ** 2) + 0.01
    joint *= chance.gamma(2.0, 1.0, joint.shape)
    for _ in range(500):
        joint *= (sizes / joint.sum(axis=1))[:, None]
        joint *= wanted / joint.sum(axis=0)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _bell(values: int, centres: Floats, width: float) -> Floats:
    heights = np.exp(-0.5 * ((np.arange(values) - centres[:, None]) / width) ** 2) + 3e-3
    return np.asarray(heights / heights.sum(axis=1, keepdims=True))


def _marital() -> Floats:
    """Six states, by age in steps of eight years: the never married give way to the married, they to the widowed."""
    old = np.linspace(0.0, 1.0, 9)
    never, widowed = 0.88 * np.exp(-4.0 * old) + 0.04, 0.01 + 0.45 * old**3
    divorced, separated, absent = 0.02 + 0.16 * np.sqrt(old), np.full(9, 0.02), np.full(9, 0.015)
    married = 1.0 - never - widowed - divorced - separated - absent
    return np.stack([married, never, divorced, widowed, separated, absent], axis=1)


def _countries(chance: np.random.Generator) -> Floats:
    """Country 0 is home; the others are rare, and each is more likely for some races than for others."""
    abroad = np.geomspace(0.2, 0.002, DOMAINS["Country"] - 1) * chance.gamma(0.7, 1.0, (DOMAINS["Race"], 82)) + 1e-3
    home = np.concatenate([[0.94], np.linspace(0.7, 0.35, DOMAINS["Race"] - 1)])  # the first race is the most frequent
    away = abroad / abroad.sum(axis=1, keepdims=True) * (1 - home[:, None])
    return np.concatenate([home[:, None], away], axis=1)


def _drawn(chances: Floats, given: Codes, chance: np.random.Generator) -> Codes:
    """A value for every person by the row of `chances` that `given` names."""
    edges = np.cumsum(chances, axis=1)
    draws = chance.random(len(given)) + given  # row g of the edges lies between g and g + 1
    edges[:, -1] = 1.0
    flat = (edges + np.arange(len(edges))[:, None]).ravel()
    return np.asarray(np.searchsorted(flat, draws, side="right") - given * chances.shape[1])
