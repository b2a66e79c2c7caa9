# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["anjana==1.2.3", "pyarrow>=20"]
# ///
"""k-anonymity with l-diversity by ANJANA. It wants an older numpy than Dalenius does, and so runs by itself.

bench.peers calls it; uv makes an environment of what is named above:

    uv run --script bench/peers_apart.py table.parquet settings.json anonymous.parquet

All columns of the table are text. The settings have the sensitive column, the quasi-identifiers, k, l, the percentage
of rows that may be left out, and for each quasi-identifier the levels of its hierarchy: lists of labels, one for each
of its values.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anjana.anonymity import l_diversity


def anonymous(table: Any, settings: dict[str, Any]) -> Any:
    """The table with generalised quasi-identifiers; without rows if ANJANA finds nothing."""
    hierarchies = {
        name: {level: np.array(labels, dtype=object) for level, labels in enumerate(levels)}
        for name, levels in settings["hierarchies"].items()
    }
    names = list(settings["quasi_identifiers"])
    found = l_diversity(
        table, [], names, settings["sensitive"], settings["k"], settings["l"], settings["left_out"], hierarchies
    )
    return found.reindex(columns=[*names, settings["sensitive"]])


def main() -> None:
    table, settings, out = (Path(word) for word in sys.argv[1:])
    anonymous(pd.read_parquet(table), json.loads(settings.read_text(encoding="utf-8"))).to_parquet(out)


if __name__ == "__main__":
    main()
