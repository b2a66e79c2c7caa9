"""Which module may import which library: heavy ones have one door each, and the model has none."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

import dalenius
from dalenius.cli.main import main
from tests.handmade import hospital

SOURCE = Path(dalenius.__file__).parent
DOORS = {
    "altair": ["report/charts.py"],
    "duckdb": [
        "tables/*.py",
        "query/*.py",
        "attack/truth.py",
        "attack/records.py",
        "attack/over_time_links.py",
        "dp_risk/group_tables.py",
    ],
    "highspy": ["solve/highs.py", "solve/highs_sparse.py"],
    "jinja2": ["report/page.py", "studio/pages.py"],
    "opendp": ["dp_risk/noise.py"],
    "pyspark": ["publishing/spark/*.py"],
    "starlette": ["studio/*.py"],
    "uvicorn": ["studio/serve.py"],
}


@cache
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


HEAVY = {"duckdb", "highspy", "numpy", "numpy.ma", "pandas", "pyarrow", "pyarrow.compute", "pydantic", "rich"}
CODE = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from dalenius.cli.main import entry
entry()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny table, its counts, a certificate and a release."""
    folder = tmp_path_factory.mktemp("tiny")
    table = {"Gender": ["F", "M"] * 30, "Disease": ["Flu", "Cold", "Flu", "Gout", "Cold", "Flu"] * 10}
    rows = "".join(f"{gender},{disease}\n" for gender, disease in zip(*table.values(), strict=True))
    (folder / "table.csv").write_text(f"Gender,Disease\n{rows}", encoding="utf-8")
    (folder / "counts.csv").write_text("value,count\nFlu,30\nCold,20\nGout,10\n", encoding="utf-8")
    roles: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Gender"]}
    dalenius.publish(folder / "table.csv", {"uniform": "1/2"}, out=folder / "release", **roles)
    certify = f"plan --counts {folder}/counts.csv --uniform 1/2 --certificate {folder}/proof.json"
    assert CliRunner().invoke(main, certify.split()).exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        ("--help", set()),
        ("plan --help", set()),
        ("publish --help", set()),
        ("plan --counts counts.csv --uniform 1/2", {"highspy", "numpy"}),
        ("plan --counts counts.csv --uniform 1/2 --compare --json", {"highspy", "numpy"}),
        ("verify --certificate proof.json --counts counts.csv --uniform 1/2", {"pydantic"}),
        ("plan table.csv --sensitive Disease --uniform 1/2", {"duckdb", "highspy", "numpy"}),
        ("verify release", {"numpy", "pyarrow", "pyarrow.compute", "pydantic"}),
        ("query release Gender='F'", {"duckdb", "pydantic"}),
        ("query release Disease='Flu' --group-by Gender --no-learn --no-measure --json", {"duckdb", "pydantic"}),
    ],
)
def test_a_command_loads_only_the_libraries_it_needs(folder: Path, command: str, needs: set[str]) -> None:
    """Small jobs spend their time on imports, so each heavy library has to earn its place."""
    argv = [sys.executable, "-c", CODE, *command.split()]
    run = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert HEAVY & set(run.stderr.split()) <= needs


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
