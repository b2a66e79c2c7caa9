"""Documentation that can go stale is checked."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from dalenius import errors
from dalenius.cli.main import main

ROOT = Path(__file__).parent.parent
BY_HAND = sorted(page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if page.name != "cli.md")


@pytest.mark.parametrize("name", ["cli.md", "manifest.schema.json"])
def test_pages_that_are_made_from_the_code_are_current(name: str) -> None:
    spec = importlib.util.spec_from_file_location("generated_docs", ROOT / "tools" / "generated_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == module.pages()[name], "run make format"


def test_every_kind_of_error_is_documented() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    tree = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = {kind.kind for kind in tree if issubclass(kind, errors.DaleniusError)}
    for kind in kinds - {"error"} | {"interrupted", "internal"}:
        assert f"`{kind}`" in page.split("## Errors")[1], kind


def test_every_option_has_help_and_every_command_examples() -> None:
    for name, command in main.commands.items():
        assert command.name == name
        assert command.help, name
        assert command.epilog is not None, name
        assert f"Examples:\n  dalenius {name} " in command.epilog, name
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or getattr(parameter, "help", None), (
                f"{name} {parameter.name}"
            )


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_name_is_there(page: Path) -> None:
    """Files, and dotted names of modules and of what is in them."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|sh|md))`", text):
        places = (ROOT, ROOT / "src" / "dalenius", page.parent)
        assert any((place / name).exists() for place in places), name
    for name in re.findall(r"^(?:from|import) (dalenius[\w.]*)|`(dalenius(?:\.\w+)+)", text, re.MULTILINE):
        assert _is_there("".join(name)), name


def _is_there(name: str) -> bool:
    """Whether there is such a module, or such a thing in a module."""
    package, _, last = name.rpartition(".")
    return importlib.util.find_spec(name) is not None if not package else _has(package, last)


def _has(package: str, name: str) -> bool:
    module = importlib.import_module(package)
    return hasattr(module, name) or importlib.util.find_spec(f"{package}.{name}") is not None


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    """But for tables, links, pictures, headings, and what programs print."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.startswith(("|", "#", "![")) and "](http" not in line:
            assert len(line) <= 120, f"{page.name}, line {number}: {len(line)} characters"
