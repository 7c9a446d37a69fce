#!/usr/bin/env bash
# The checks that take hours: everything that .ci/run has no time for.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/long_tier.sh [tests|kills|outcomes|turns|load|faults|decisions|damage|twins|picks|requests|gateway|deploy|service|attacks|fuzz]...

  tests     every property test with 5,000 examples, other ones on each run
  kills     200 kills each of a sync, a rollback, an embedding, an upgrade and a creation, on each database
  outcomes  100,000 outcomes whose counts must be exact after hosts, shippers and keepers were killed 400 times each, on
            each database; and 100 random histories of which each host must have learnt the same bits
  turns     10,000 random interleavings of two replicas in one conversation, against dictionaries; turns whose steps
            other processes take, in every way of delivery on each database
  load      one, two and four times the load that one process can serve, and four times that of the service, a minute
            each
  faults    each fault of the network between a process and PostgreSQL, and a full disk, a minute each
  decisions 1,000,000 answers of every entry point, a tenth of them during a fault, and of rules alone, against oracles
  damage    10,000 damaged files, databases and rows; every wrong value in every column of every table
  twins     100,000 lists of each pair of twins: two databases, sync and async, with and without caches
  gateway   seven real MCP servers from package registries behind the gateway, and 1,000 calls at once with a server
            killed; and a day's traffic: 5,000 conversations with 100,000 calls, in which its memory must not grow.
            Needs node and npm
  deploy    what the image's build does, as a script, and the service as the image runs it: as another user
  service   300 requests to each operation of the service from each caller, generated from its OpenAPI description
  picks     100,000 random worlds in which the core and the stages in Python must select the same
  attacks   the long form of each attack of a stranger on the service, the drop-in and the gateway
  requests  10,000 requests to providers, of which the drop-in must keep every byte but the tools
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
    tests | kills | outcomes | turns | load | faults | decisions | damage | twins | picks | requests | gateway | deploy | service | attacks | fuzz | all) ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

wanted() { [[ " ${modes[*]} " == *" $1 "* || " ${modes[*]} " == *" all "* ]]; }

if wanted tests; then HYPOTHESIS_PROFILE=long "$python" -m pytest -m "" --timeout 7200 --all-packages; fi
if wanted kills; then
  TOOLROLL_KILLS=200 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_{crash,upgrades}.py
  TOOLROLL_TEST_EXITS=200 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_exit.py
fi
if wanted load; then TOOLROLL_LOAD_S=60 "$python" -m pytest -m "" -n 0 tests/unit/test_overload.py tests/integration/test_service_overload.py; fi
if wanted faults; then
  TOOLROLL_FAULT_S=60 "$python" -m pytest -m "" -n 0 tests/integration/test_{network_faults,full_disk}.py
fi
if wanted outcomes; then
  TOOLROLL_OUTCOMES=100000 TOOLROLL_KILLS=400 TOOLROLL_PAUSE_S=0.05 \
    "$python" -m pytest -m "" -n 0 tests/integration/test_outcomes_survive.py
  TOOLROLL_FOLDS=100 "$python" -m pytest -m "" -n 0 tests/integration/test_learning_follows.py
  TOOLROLL_HOURS_SEEDS=100 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_hours.py
fi
if wanted turns; then
  TOOLROLL_INTERLEAVINGS=10000 "$python" -m pytest -m "" -n 0 --timeout 7200 \
    tests/integration/test_{turns,turn_steps}.py
  TOOLROLL_CHANGES=1000 "$python" -m pytest -m "" -n 0 -s tests/unit/selection/test_recent_selections.py
fi
if wanted decisions; then
  TOOLROLL_DECISIONS=1000000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 tests/decisions \
    tests/unit/selection/policy/test_policy.py
fi
if wanted damage; then
  TOOLROLL_DAMAGED=10000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 \
    tests/integration/test_damaged_files.py
fi
if wanted twins; then
  TOOLROLL_TWINS=100000 "$python" -m pytest -m "" -n 0 -s --timeout 14400 tests/integration/test_side_by_side.py
fi
if wanted gateway; then
  servers=$(mktemp -d)
  "$python" -m venv "$servers/new" && "$servers/new/bin/pip" install -q mcp-server-time mcp-server-git mcp-server-fetch
  "$python" -m venv "$servers/old" && "$servers/old/bin/pip" install -q mcp-server-sqlite 'mcp<2'
  npm install --silent --prefix "$servers" @modelcontextprotocol/{inspector,server-{everything,filesystem,memory}}
  "$python" -m pip install -q fastmcp joserfc
  TOOLROLL_MCP_SERVERS=$servers "$python" -m pytest -m "" -n 0 tests/integration/real_mcp_servers.py
  TOOLROLL_GATEWAY_CALLS=1000 "$python" -m pytest -m "" -n 0 tests/integration/test_gateway*.py
  TOOLROLL_GATEWAY_CONVERSATIONS=5000 "$python" -m pytest -m "" -n 0 -s tests/integration/test_gateway_memory.py
  rm -rf "$servers"
fi
if wanted deploy; then
  TOOLROLL_DEPLOY=1 "$python" -m pytest -m "" -n 0 --timeout 3600 tests/integration/test_deploy.py
fi
if wanted service; then
  "$python" -m pip install -q schemathesis
  TOOLROLL_SERVICE_REQUESTS=300 "$python" -m pytest -m "" -n 0 --timeout 7200 \
    tests/integration/generated_service_requests.py
fi
if wanted picks; then
  HYPOTHESIS_PROFILE=long TOOLROLL_PICKS=100000 \
    "$python" -m pytest -m "" -n 0 --timeout 36000 tests/unit/selection/test_native_stages.py
fi
if wanted requests; then
  TOOLROLL_REQUESTS=10000 "$python" -m pytest -m "" -n 0 --timeout 7200 tests/unit/adapters/test_provider_requests.py
fi
if wanted attacks; then
  TOOLROLL_ATTACKS=long "$python" -m pytest -m "" -n 0 -s --timeout 7200 tests/attacks
fi
if wanted fuzz; then FUZZ_SECONDS=${FUZZ_SECONDS:-600} tools/check_native.sh fuzz; fi
echo "long_tier: ${modes[*]}: passed"
