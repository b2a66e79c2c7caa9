"""Whether there is a Java for Spark to run on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def need_java() -> None:
    """Skip a test where there is none, which is a failure in CI."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        pytest.skip("there is no Java: install a runtime of version 17 or newer")
