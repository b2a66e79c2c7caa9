"""Time and memory of drawing and fitting, each in a process of its own.

python -m bench.analysis_costs draws|fit|"fit of all" RELEASE
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dalenius
from bench.analysis_models import IDENTIFIERS, split
from bench.coverage import census
from dalenius.analysis.completing import Completion
from dalenius.analysis.draw_files import write_draws
from dalenius.analysis.formulas import fit_formula
from dalenius.release.folder import open_release

ASKED = ("draws", "fit", "fit of all")
FORMULA = "I(PINCP == 'above') ~ AGEP + WKHP + C(SEX) + C(MAR) + C(RAC1P)"


def release_of(what: str, data: Path, out: Path) -> None:
    """Make the release that is measured."""
    if what == "draws":
        case = census("Occupation", 8)
        names = list(case.quasi_identifiers)
        limits = {"odds": case.odds}
        dalenius.publish(case.table(data), limits, sensitive=case.sensitive, quasi_identifiers=names, seed=1, out=out)
    else:
        table, _ = split(data, whole=what == "fit of all")
        names = list(IDENTIFIERS)
        dalenius.publish(table, {"odds": 4}, sensitive="PINCP", quasi_identifiers=names, seed=1, out=out)


def work(what: str, path: Path) -> dict[str, Any]:
    """Draw or fit, here and now."""
    folder = open_release(path)
    started, used = time.perf_counter(), time.process_time()
    if what == "draws":
        with tempfile.TemporaryDirectory() as out:
            write_draws(Completion(folder, 20, seed=1), Path(out, "draws"), "parquet")
    else:
        fit_formula(folder, FORMULA, "logit", seed=1)
    return {
        "what": what,
        "rows": folder.manifest.rows,
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - used,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(data: Path) -> list[dict[str, Any]]:
    """Both, each in a process of its own."""
    found = []
    for what in ASKED:
        with tempfile.TemporaryDirectory() as folder:
            release = Path(folder, "release")
            release_of(what, data, release)
            command = [sys.executable, "-m", "bench.analysis_costs", what, str(release)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout))
            print(found[-1], flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(work(sys.argv[1], Path(sys.argv[2]))))
