#!/bin/sh
# Install a Java runtime, on which Spark runs. Without it, and without the right to install it, the tests with Spark are skipped.
set -eu

# "17.0.15" is version 17, "1.8.0_392" is version 8
version() {
    "$1" -version 2>&1 | sed -n 's/^[^"]*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-$(command -v java || true)}
if [ -n "$java" ] && [ -x "$java" ] && [ "$(version "$java" || true)" -ge 17 ] 2>/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing a Java runtime ..."
    apt-get update -qq
    package=openjdk-17-jre-headless
    apt-cache show "$package" >/dev/null 2>&1 || package=default-jre-headless
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
else
    echo "Tests with Spark are skipped: install Java 17 or newer (on Debian: sudo apt-get install default-jre-headless)." >&2
fi
