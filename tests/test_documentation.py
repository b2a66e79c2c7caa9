"""Documentation that can go stale is checked."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dalenius import errors
from dalenius.cli.main import main

ROOT = Path(__file__).parent.parent


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
