#!/bin/sh
# Build the wheel, install it into a fresh environment, and use it there as a publisher would: nothing of the checkout
# is on the path. Takes the Python that UV_PYTHON names.
set -eu
checkout=$(cd "$(dirname "$0")/.." && pwd)
cd "$checkout"
uv=$(command -v uv || echo "$checkout/.uv/bin/uv")
if [ ! -x "$uv" ]; then
    sh tools/get-uv.sh
    uv=$checkout/.uv/bin/uv
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH VIRTUAL_ENV

echo "Building ..."
"$uv" build --quiet --out-dir "$folder/dist"
echo "Installing into a fresh environment ..."
"$uv" venv --quiet "$folder/env"
"$uv" pip install --quiet --python "$folder/env/bin/python" "$folder"/dist/*.whl

cd "$folder"
dalenius=$folder/env/bin/dalenius
python="$folder/env/bin/python -I"

echo "Using it in $folder ..."
$python - "$checkout" <<'PYTHON'
import importlib.util
import random
import sys
from pathlib import Path

import dalenius

where = Path(dalenius.__file__).resolve()
assert "site-packages" in where.parts, where
assert Path(sys.argv[1]).resolve() not in where.parents, where
assert importlib.util.find_spec("paper") is None, "the reproduction does not belong into the wheel"
source = Path(sys.argv[1], "src", "dalenius")
files = [file.relative_to(source) for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
missing = [str(file) for file in files if not (where.parent / file).is_file()]
assert Path("py.typed") in files, "the package has types, and must say so"
assert not missing, missing

chance = random.Random(1977)
diseases = ["Flu"] * 300 + ["Asthma"] * 150 + ["HIV"] * 10
chance.shuffle(diseases)
rows = (f"{chance.choice('FM')},{chance.randint(18, 95)},{disease}" for disease in diseases)
Path("table.csv").write_text("\n".join(["Gender,Age,Disease", *rows, ""]), encoding="utf-8")
PYTHON

roles="--sensitive Disease --quasi-identifiers Gender,Age"
limits="--theta 3 --base 0.02 --limit HIV=0.05 --limit Flu=1"
# shellcheck disable=SC2086 # several words each
{
    "$dalenius" --version
    "$dalenius" plan table.csv --sensitive Disease $limits --json >plan.json
    "$dalenius" publish table.csv $roles $limits --min-size 2 --out release
    "$dalenius" verify release --against table.csv
    "$dalenius" query release "Gender = 'F' AND Disease = 'HIV'"
}

# A release that was tampered with is not accepted.
cp -r release broken
$python - <<'PYTHON'
from pathlib import Path

manifest = Path("broken/manifest.json")
text = manifest.read_text(encoding="utf-8")
assert '"rows": 460' in text or '"rows":460' in text
manifest.write_text(text.replace("460", "461"), encoding="utf-8")
PYTHON
if "$dalenius" verify broken >/dev/null; then
    echo "verify accepted a release that was tampered with" >&2
    exit 1
fi
echo "The wheel works: a table was published and verified, and a broken release was rejected."
