#!/bin/sh
# Checks that Prometheus is there; installs Debian's package first if not, without its service, which
# would listen on every interface.
set -eu

[ -x /usr/bin/prometheus ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "There is no /usr/bin/prometheus: install the package prometheus." >&2
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
    apt-get install -q -y --no-install-recommends prometheus
} >&2
[ -x /usr/bin/prometheus ]
