#!/bin/sh
# Installs the service into a folder of its own, as the image's build does: deploy/install.sh FOLDER [SOURCE]
# SOURCE is what pip installs: this repository by default, or a wheel. Needs Python, and g++ where there is no wheel.
set -eu
folder=$1
source=${2:-$(cd "$(dirname "$0")/.." && pwd)}

"${PYTHON:-python3}" -m venv "$folder"
# The extras of both kinds of registry: the image runs with a file as well as with PostgreSQL.
"$folder/bin/pip" install --no-cache-dir --disable-pip-version-check --quiet \
  "toolroll[server,oidc,postgres] @ file://$source"
"$folder/bin/python" -m compileall -q "$folder/lib" || true # a read-only image writes no bytecode later
"$folder/bin/toolroll" --version
