"""Documentation that can go stale is checked."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dalenius.cli.main import main

ROOT = Path(__file__).parent.parent


def test_the_command_line_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "tools" / "cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == module.reference(), "run make format"


def test_every_option_has_help() -> None:
    for name, command in main.commands.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or getattr(parameter, "help", None), (
                f"{name} {parameter.name}"
            )
