#!/bin/sh
# Install Debian's Chromium, in which the pages are tested, and the library that its driver needs. Without them, and
# without the right to install them, those tests are skipped.
set -eu

need=
if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null; then
    need="chromium fonts-dejavu-core"
fi
if command -v dpkg-query >/dev/null && ! dpkg-query --show libatomic1 >/dev/null 2>&1; then
    need="$need libatomic1"
fi
if [ -z "$need" ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium and what its driver needs ..."
    apt-get update -qq
    # shellcheck disable=SC2086 # the names are words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $need >/dev/null
else
    echo "Tests in a browser are skipped: install Chromium (on Debian: sudo apt-get install chromium libatomic1)." >&2
fi
