#!/bin/sh
# Install R with mice and mitools, which pool models over completed tables. Without them, and without the right to
# install them, the tests in R are skipped.
set -eu

# both packages, Debian's or anybody's
if Rscript -e 'for (name in c("mice", "mitools")) find.package(name)' >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing R ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends r-base-core r-cran-mice r-cran-mitools >/dev/null
else
    echo "Tests in R are skipped: install it and both packages (sudo apt-get install r-cran-mice r-cran-mitools)." >&2
fi
