#!/usr/bin/env bash
# The quick tier on every CPython from 3.10 that this machine has: those of pyenv and those on the PATH.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/test_pythons.sh [VERSION]...

  VERSION  only these, such as 3.10 3.13

Makes an environment for each, builds the wheel, installs '[test]' and runs the quick tier.
exit status: 0 all passed, 1 one failed, 2 there is none
USAGE
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

describe='import sys, platform as p; ok = p.python_implementation() == "CPython" and sys.version_info >= (3, 10)
print("%d.%d %s" % (*sys.version_info[:2], p.python_version()) if ok else "")'
declare -A program version
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 $(IFS=:; for folder in $PATH; do echo "$folder"/python3.{10..19}; done); do
  [[ -x $candidate ]] || continue
  read -r minor full < <("$candidate" -c "$describe" 2>/dev/null) || continue
  [[ -n $minor && -z ${program[$minor]:-} ]] || continue
  "$candidate" -c 'import venv, ensurepip' 2>/dev/null || continue
  if [[ $# -gt 0 && " $* " != *" $minor "* ]]; then continue; fi
  program[$minor]=$candidate
  version[$minor]=$full
done
[[ ${#program[@]} -gt 0 ]] || { echo "test_pythons: no CPython from 3.10 found" >&2; exit 2; }

status=0
rows=()
for minor in $(printf '%s\n' "${!program[@]}" | sort -V); do
  printf '== Python %s\n' "${version[$minor]}"
  env=$work/$minor
  started=$SECONDS
  if ! { "${program[$minor]}" -m venv "$env" && "$env/bin/pip" install -q '.[test]'; } >"$work/$minor.log" 2>&1; then
    tail -n 30 "$work/$minor.log"
    rows+=("$minor|${version[$minor]}|not installed|$((SECONDS - started)) s")
    status=1
    continue
  fi
  "$env/bin/python" -m pytest -q -p no:cacheprovider >"$work/$minor.log" 2>&1 || { tail -n 60 "$work/$minor.log"; status=1; }
  rows+=("$minor|${version[$minor]}|$(tail -n 1 "$work/$minor.log" | tr -d '=')|$((SECONDS - started)) s")
done

printf '\n'
{
  echo "python|version|result|all in all"
  printf '%s\n' "${rows[@]}"
} | column -t -s '|'
exit "$status"
