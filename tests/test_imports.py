"""Which module may import which library: heavy ones have one door each, and the model has none."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import dalenius
from tests.handmade import hospital

SOURCE = Path(dalenius.__file__).parent
DOORS = {
    "altair": ["report/charts.py"],
    "duckdb": ["tables/*.py", "query/*.py", "attack/truth.py", "dp_risk/groups.py"],
    "highspy": ["solve/highs.py"],
    "jinja2": ["report/page.py", "studio/pages.py"],
    "opendp": ["dp_risk/noise.py"],
    "pyspark": ["publishing/spark/*.py"],
    "starlette": ["studio/*.py"],
    "uvicorn": ["studio/serve.py"],
}


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, wherever in the module."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            packages.add(node.module.split(".")[0])
    return packages


@pytest.mark.parametrize(("library", "doors"), DOORS.items())
def test_a_library_has_few_doors(library: str, doors: list[str]) -> None:
    users = {path for path in SOURCE.rglob("*.py") if library in imported(path)}
    assert users
    assert users <= {path for door in doors for path in SOURCE.glob(door)}


def test_help_and_completion_load_no_engine_and_no_solver() -> None:
    code = "import sys, dalenius.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"duckdb", "highspy", "numpy", "pyarrow", "pydantic", "rich", "starlette", "jinja2"} & set(loaded)


AUTHOR = ["solve", "place", "strata", "fakes", "planning", "publishing"]
JUDGE = ["verify.judge", "verify.proof", "attack.audit", "release.folder", "release.atomic"]


@pytest.mark.parametrize("judge", JUDGE)
def test_the_judge_loads_nothing_of_the_author(judge: str) -> None:
    """Beside the import rule, which reads the source: what is really in memory."""
    code = f"import sys, dalenius.{judge}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert f"dalenius.{judge}" in loaded
    assert not of_the_author(loaded)


def test_verifying_and_auditing_load_nothing_of_the_author(tmp_path: Path) -> None:
    """Nor do they later, when they run."""
    release = hospital().write(tmp_path / "release")
    pyarrow.parquet.write_table(hospital().source(), tmp_path / "hospital.parquet")
    code = (
        "import sys; from dalenius.verify.judge import verify; from dalenius.attack.audit import audit\n"
        "release, table = sys.argv[1:]\n"
        "assert verify(release, against=table).verified\n"
        "audit(release, truth=table)\n"
        "print(*sys.modules)"
    )
    words = [sys.executable, "-c", code, str(release), str(tmp_path / "hospital.parquet")]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert not of_the_author(loaded)


def of_the_author(modules: list[str]) -> list[str]:
    return [name for name in modules if name.startswith(tuple(f"dalenius.{part}" for part in AUTHOR))]


def test_every_public_name_can_be_had() -> None:
    for name in dalenius.__all__:
        assert getattr(dalenius, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dalenius.nonsense


def test_dir_lists_the_public_names() -> None:
    code = "import dalenius; print(*dir(dalenius))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(dalenius.__all__) <= set(names)
    assert {"__doc__", "__path__"} <= set(names)


def test_the_model_and_the_errors_need_the_standard_library_alone() -> None:
    for path in [SOURCE / "errors.py", *(SOURCE / "model").glob("*.py")]:
        assert imported(path) <= {*sys.stdlib_module_names, "dalenius"}, path.name


def test_solvers_are_numpy_and_the_standard_library() -> None:
    for path in (SOURCE / "solve").glob("*.py"):
        assert imported(path) <= {*sys.stdlib_module_names, "dalenius", "numpy", "highspy"}, path.name
