#!/usr/bin/env bash
# Builds the admin page for the tests that drive it, and gets a Chromium by apt: tools/build_page.sh FOLDER
# FOLDER becomes a clone with the built page. Without Node, the network or a package of Chromium, the last line of the
# output says what is missing, and the exit status is 0; it is not if the page has a mistake. The network gets 200 s.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "the page is not driven in a browser: $*" && exit 0; }

command -v npm >/dev/null || skip "there is no npm"
if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "there is no Chromium"
  apt-cache show chromium >/dev/null 2>&1 || timeout 200 apt-get update -qq || skip "apt lists no packages"
  DEBIAN_FRONTEND=noninteractive timeout 200 apt-get install -qq -y --no-install-recommends chromium >/dev/null || skip "apt has no Chromium"
  chromium --version >/dev/null 2>&1 || skip "Chromium does not start" # Ubuntu's package only tells of another one
fi
git clone -q --no-hardlinks . "$1"
cd "$1/web"
timeout 200 npm ci --silent --no-audit --no-fund || skip "npm gives no packages"
npm run --silent build
size=$(cat ../python/toolroll/server/static/assets/* | gzip -c | wc -c)
[ "$size" -lt 250000 ] || { echo "scripts and styles have $size bytes compressed, must have less than 250,000" && exit 1; }
echo "the page is built; scripts and styles have $size bytes compressed"
