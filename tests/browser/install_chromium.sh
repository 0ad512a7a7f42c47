#!/bin/sh
# Debian's own Chromium, with fonts: Playwright drives it, and downloads no browser.
set -eu
[ -x /usr/bin/chromium ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests in a browser need /usr/bin/chromium: apt-get install chromium" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2
