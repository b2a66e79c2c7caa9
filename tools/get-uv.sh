#!/bin/sh
# Install uv into .uv, with nothing but Python at hand. Debian ships Python without venv, so that comes first if need be.
set -eu
cd "$(dirname "$0")/.."

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Python 3.11 or later is needed." >&2
    exit 1
fi

if ! python3 -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    else
        echo "Install uv, or Python's venv (on Debian: sudo apt-get install python3-venv), and run make again." >&2
        exit 1
    fi
fi

echo "Fetching uv ..."
python3 -m venv .uv
.uv/bin/python -m pip install --quiet --disable-pip-version-check uv
