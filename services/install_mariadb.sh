#!/bin/sh
# Checks that MariaDB's server and client programs are there; installs Debian's packages first if
# not: those without a service, so that nothing is started.
set -eu

has_programs() {
    [ -x /usr/sbin/mariadbd ] && [ -x /usr/bin/mariadb-install-db ] && [ -x /usr/bin/mariadb ]
}

has_programs && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "There is no MariaDB in /usr/sbin: install mariadb-server-core and mariadb-client-core." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
{
    apt-get update -q
    apt-get install -q -y --no-install-recommends mariadb-server-core mariadb-client-core
} >&2
has_programs
