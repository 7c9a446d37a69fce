#!/bin/sh
# Installs the service into a folder of its own, as the image's build does: deploy/install.sh FOLDER [SOURCE]
# SOURCE is what pip installs: this repository by default, or a wheel. Needs Python, and g++ where there is no wheel.
# Every package but toolroll itself has the version and a hash of the lock files beside this script.
set -eu
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
source=${2:-$(dirname "$here")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

environment() { "${PYTHON:-python3}" -m venv "$1"; }
pip() { # pip FOLDER COMMAND ARGUMENT...
  pip=$1/bin/pip command=$2
  shift 2
  "$pip" "$command" --no-cache-dir --disable-pip-version-check --quiet "$@"
}

case $source in
*.whl) ;;
*) # What builds the wheel is not left in the folder.
  environment "$work/tools"
  pip "$work/tools" install --require-hashes --only-binary :all: -r "$here/build.lock"
  pip "$work/tools" install --require-hashes --no-deps --no-build-isolation -r "$here/headers.lock"
  pip "$work/tools" wheel --no-deps --no-build-isolation --wheel-dir "$work" "$source"
  source=$(echo "$work"/toolroll-*.whl)
  ;;
esac

environment "$folder"
# The packages of both kinds of registry: the image runs with a file as well as with PostgreSQL.
pip "$folder" install --require-hashes --only-binary :all: -r "$here/requirements.lock"
pip "$folder" install --no-deps --no-index "$source"
"$folder/bin/pip" check
"$folder/bin/python" -m compileall -q "$folder/lib" || true # a read-only image writes no bytecode later
"$folder/bin/toolroll" --version
