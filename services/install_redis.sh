#!/bin/sh
# Prints the path of a Redis or Valkey server; installs Debian's package first if there is none,
# without its service.
set -eu

find_program() {
    command -v valkey-server || command -v redis-server
}

find_program && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "There is no valkey-server or redis-server: install the package redis-server." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
{
    apt-get update -q
    apt-get install -q -y --no-install-recommends redis-server
} >&2
find_program
