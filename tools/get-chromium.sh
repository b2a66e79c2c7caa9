#!/bin/sh
# Install Debian's Chromium, in which the pages are tested. Without it, and without the right to install it, those tests are skipped.
set -eu

if [ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
else
    echo "Tests in a browser are skipped: install Chromium (on Debian: sudo apt-get install chromium)." >&2
fi
