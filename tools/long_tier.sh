#!/usr/bin/env bash
# The checks that take hours: everything that .ci/run has no time for.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/long_tier.sh [tests|kills|outcomes|turns|load|faults|fuzz]...

  tests     every property test with 5,000 examples, other ones on each run
  kills     200 kills each of a sync, a rollback, an embedding, an upgrade and a creation, on each database
  outcomes  100,000 outcomes whose counts must be exact after processes were killed 400 times, on each database
  turns     10,000 random interleavings of two replicas in one conversation, against dictionaries
  load      one, two and four times the load that one process can serve, a minute each
  faults    each fault of the network between a process and PostgreSQL, and a full disk, a minute each
  fuzz      every fuzzer for FUZZ_SECONDS

All of them without an argument. Needs an environment with '.[test,test-all]'.

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
    tests | kills | outcomes | turns | load | faults | fuzz | all) ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

wanted() { [[ " ${modes[*]} " == *" $1 "* || " ${modes[*]} " == *" all "* ]]; }

if wanted tests; then HYPOTHESIS_PROFILE=long "$python" -m pytest -m "" --timeout 7200 --all-packages; fi
if wanted kills; then
  TOOLROLL_KILLS=200 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_{crash,upgrades}.py
fi
if wanted load; then TOOLROLL_LOAD_S=60 "$python" -m pytest -m "" -n 0 tests/unit/test_overload.py; fi
if wanted faults; then
  TOOLROLL_FAULT_S=60 "$python" -m pytest -m "" -n 0 tests/integration/test_{network_faults,full_disk}.py
fi
if wanted outcomes; then
  TOOLROLL_OUTCOMES=100000 TOOLROLL_KILLS=400 \
    "$python" -m pytest -m "" -n 0 tests/integration/test_outcomes_survive.py
fi
if wanted turns; then
  TOOLROLL_INTERLEAVINGS=10000 "$python" -m pytest -m "" -n 0 --timeout 7200 tests/integration/test_turns.py
fi
if wanted fuzz; then FUZZ_SECONDS=${FUZZ_SECONDS:-600} tools/check_native.sh fuzz; fi
echo "long_tier: ${modes[*]}: passed"
