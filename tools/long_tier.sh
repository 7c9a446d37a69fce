#!/usr/bin/env bash
# The checks that take hours: everything that .ci/run has no time for.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/long_tier.sh [tests|kills|outcomes|turns|decisions|damage|twins|fuzz]...

  tests     every property test with 5,000 examples, other ones on each run
  kills     200 killed processes on SQLite and 100 on PostgreSQL, of a sync, a rollback and an embedding
  outcomes  100,000 outcomes whose counts must be exact after processes were killed
  turns     10,000 random interleavings of two replicas in one conversation, against dictionaries
  decisions 1,000,000 answers of every entry point, a tenth of them during a fault, against an oracle
  damage    10,000 damaged files, databases and rows
  twins     100,000 lists of each pair of twins: two databases, sync and async, with and without caches
  fuzz      every fuzzer for FUZZ_SECONDS

All eight without an argument. Needs an environment with '.[test,test-all]'.

environment
  PYTHON=python
  FUZZ_SECONDS=600
USAGE
}

cd "$(dirname "$0")/.."
python=${PYTHON:-python}
modes=("${@:-all}")
for mode in "${modes[@]}"; do
  case $mode in
    tests | kills | outcomes | turns | decisions | damage | twins | fuzz | all) ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

wanted() { [[ " ${modes[*]} " == *" $1 "* || " ${modes[*]} " == *" all "* ]]; }

if wanted tests; then HYPOTHESIS_PROFILE=long "$python" -m pytest -m "" --timeout 7200 --all-packages; fi
if wanted kills; then TOOLROLL_KILLS=200 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_crash.py; fi
if wanted outcomes; then
  TOOLROLL_OUTCOMES=100000 "$python" -m pytest -m "" -n 0 --timeout 7200 tests/integration/test_outcomes_survive.py
fi
if wanted turns; then
  TOOLROLL_INTERLEAVINGS=10000 "$python" -m pytest -m "" -n 0 --timeout 7200 tests/integration/test_turns.py
fi
if wanted decisions; then
  TOOLROLL_DECISIONS=1000000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 tests/decisions
fi
if wanted damage; then
  TOOLROLL_DAMAGED=10000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 tests/integration/test_damaged_files.py
fi
if wanted twins; then
  TOOLROLL_TWINS=100000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 tests/integration/test_side_by_side.py
fi
if wanted fuzz; then FUZZ_SECONDS=${FUZZ_SECONDS:-600} tools/check_native.sh fuzz; fi
echo "long_tier: ${modes[*]}: passed"
