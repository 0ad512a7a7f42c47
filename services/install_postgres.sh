#!/bin/sh
# Prints the folder of PostgreSQL's programs; installs Debian's package first if there is none.
# The package would make a cluster of the machine's own and start it: it is told not to.
set -eu

find_programs() {
    for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
        if [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

find_programs && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "There is no PostgreSQL in /usr/lib/postgresql: install the package postgresql." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
{
    apt-get update -q
    apt-get install -q -y --no-install-recommends postgresql-common
    sed -i 's/^#\? *create_main_cluster.*/create_main_cluster = false/' \
        /etc/postgresql-common/createcluster.conf
    apt-get install -q -y --no-install-recommends postgresql
} >&2
find_programs
