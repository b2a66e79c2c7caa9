"""The house stays one to live in: few rooms, short modules, one name for one thing, few layers."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import dalenius

SOURCE = Path(dalenius.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_MODULES, MOST_LINES, MOST_LAYERS = 378, 350, 12


def test_there_are_few_modules() -> None:
    assert 0 < len(MODULES) <= MOST_MODULES


def test_modules_are_short() -> None:
    lines = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: number for name, number in lines.items() if number > MOST_LINES} == {}


def test_no_two_modules_share_a_name() -> None:
    names = Counter(path.stem for path in MODULES if path.name != "__init__.py")
    assert [name for name, number in names.items() if number > 1] == []


def test_there_are_few_layers_and_every_package_has_one() -> None:
    config = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    assert len(layers) <= MOST_LAYERS
    listed = {name.strip() for layer in layers for name in layer.split("|")}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert listed == packages | {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
