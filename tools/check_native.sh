#!/usr/bin/env bash
# Builds the C++ core without Python and runs its tests plain, under the sanitizers and fuzzed; lints it.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tools/check_native.sh [all|lint|plain|asan|tsan|fuzz]...

  lint   clang-format and clang-tidy (.clang-tidy) find nothing; they come from pip install '.[lint]'
  plain  warnings as errors, the suite
  asan   the suite under AddressSanitizer and UndefinedBehaviorSanitizer; with clang++ where it is there,
         which compiles them in half the time and shares the objects with fuzz
  tsan   the tests of the files that name threads under ThreadSanitizer: the others have one thread
  fuzz   every tests/cpp/fuzz_*.cpp for FUZZ_SECONDS, JOBS of them at a time, under address and undefined
         (needs clang++)
  all    the five (default); what is missing, of lint's programs and fuzz's clang++, is left out with a notice

environment
  FUZZ_SECONDS=20       for each fuzzer
  BUILD_DIR=build/native
  JOBS=2
  CXX                   compiler of plain and tsan, and of asan where clang++ is missing
  FUZZ_CXX=clang++      compiler of asan and fuzz
  TOOLROLL_ISA          run the suites on a lower instruction set: baseline, avx2
  HNSWLIB_INCLUDE       folder that holds hnswlib/hnswlib.h; default: the Python package assorthead,
                        installed into a throw-away environment if python3 has none

exit status: 0 passed, 1 a check failed, 2 wrong use or something is missing
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build/native}
jobs=${JOBS:-2}
seconds=${FUZZ_SECONDS:-20}
clang=${FUZZ_CXX:-clang++}
files= # the test files to run; empty for all
sanitized=(-DTOOLROLL_SANITIZE=address,undefined)
fuzzed=("${sanitized[@]}" -DCMAKE_CXX_COMPILER="$clang" -DTOOLROLL_FUZZ=ON)

stop() {
  echo "check_native: $1" >&2
  exit "${2:-2}"
}

# need PROGRAM PACKAGE: the program, or how to get it.
need() {
  command -v "$1" >/dev/null || stop "$1 is missing. Debian and Ubuntu: apt-get install $2"
}

[[ $seconds =~ ^[0-9]+$ && $seconds -gt 0 ]] || stop "FUZZ_SECONDS is '$seconds', must be a number above 0"

modes=()
for mode in "${@:-all}"; do
  case $mode in
    all) modes+=(lint plain asan tsan fuzz) ;;
    lint | plain | asan | tsan | fuzz) modes+=("$mode") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

need cmake cmake
need "${CXX:-c++}" g++
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

hnswlib_include() {
  local find='import assorthead; print(assorthead.includes(), end="")'
  if [[ -n ${HNSWLIB_INCLUDE:-} ]]; then
    echo "$HNSWLIB_INCLUDE"
  elif python3 -c "$find" 2>/dev/null; then
    :
  else
    need python3 python3-venv
    local env=$build/assorthead
    if [[ ! -x $env/bin/python ]]; then
      python3 -m venv "$env" || stop "python3 can't make an environment. Debian: apt-get install python3-venv"
    fi
    "$env/bin/python" -m pip install -q --require-hashes --no-deps -r "$root/deploy/headers.lock" >&2 || stop "assorthead (hnswlib's headers) can't be installed; set HNSWLIB_INCLUDE"
    "$env/bin/python" -c "$find"
  fi
}

# configure NAME OPTION...: build tree $build/NAME.
configure() {
  local name=$1
  shift
  cmake -S "$root" -B "$build/$name" "${generator[@]}" -Wno-dev --log-level=WARNING \
    -DCMAKE_BUILD_TYPE=Release -DTOOLROLL_PYTHON=OFF -DTOOLROLL_WERROR=ON \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTOOLROLL_HNSWLIB_INCLUDE="$include" "$@" >/dev/null ||
    stop "$name: can't be configured" 1
}

# make NAME TARGET
make() {
  local name=$1 target=$2
  cmake --build "$build/$name" -j "$jobs" --target "$target" || stop "$name: can't be built" 1
}

lint() {
  local program
  for program in clang-format clang-tidy; do
    command -v "$program" >/dev/null && continue
    [[ ${1:-} == optional ]] && echo "check_native: left out: lint needs $program: pip install '.[lint]'" >&2 && return
    stop "$program is missing: pip install '.[lint]'"
  done
  (cd "$root" && find cpp tests/cpp -name '*.[ch]pp' -print0 | xargs -0 clang-format --dry-run -Werror) ||
    stop "lint: run clang-format -i on these files" 1
  configure lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON # those of the compiler, which clang-tidy cannot read
  find "$root/cpp/src" -name '*.cpp' -print0 | xargs -0 -P "$jobs" -n 4 clang-tidy -p "$build/lint" --quiet ||
    stop "lint: clang-tidy found the lines above" 1
}

suite() {
  local name=$1
  shift
  configure "$name" -DTOOLROLL_TESTS=ON "$@"
  make "$name" toolroll_tests
  "$build/$name/tests/cpp/toolroll_tests" $files || stop "$name: the suite failed" 1
}

# with_threads: the test files in which a race is possible.
with_threads() {
  grep -l thread "$root"/tests/cpp/*_test.cpp | sed 's|.*/||' | tr '\n' ' '
}

can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$clang" -fsanitize=fuzzer,address,undefined -x c++ - -o "$build/probe" 2>/dev/null
}

fuzz() {
  if ! can_fuzz; then
    local missing="fuzzing needs clang++ and its runtime. Debian and Ubuntu: apt-get install clang libclang-rt-14-dev (libclang-rt-VERSION-dev)"
    [[ ${1:-} == optional ]] && echo "check_native: left out: $missing" >&2 && return
    stop "$missing"
  fi
  configure asan "${fuzzed[@]}"
  make asan fuzzers
  export -f run_fuzzer
  export build seconds
  find "$build/asan/tests/cpp" -maxdepth 1 -type f -perm -u+x -name 'fuzz_*' | sort |
    xargs -P "$jobs" -n 1 bash -c 'run_fuzzer "$1"' bash || stop "a fuzzer failed; the input that did it is beside $build" 1
}

# run_fuzzer PROGRAM: prints its output when it has ended, since others run beside it.
run_fuzzer() {
  local name output
  name=$(basename "$1")
  mkdir -p "$build/corpus/$name"
  output=$("$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$build/$name-" "$build/corpus/$name" 2>&1)
  local status=$?
  printf '== %s, %s s\n%s\n' "$name" "$seconds" "$output"
  return "$status"
}

mkdir -p "$build"
include=$(hnswlib_include)
wanted=$#
for mode in "${modes[@]}"; do
  echo "== $mode"
  case $mode in
    lint) if [[ $wanted -eq 0 ]]; then lint optional; else lint; fi ;;
    plain) suite plain -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON ;; # finds a missing include
    asan) if can_fuzz; then suite asan "${fuzzed[@]}"; else suite asan "${sanitized[@]}"; fi ;;
    tsan) files=$(with_threads) suite tsan -DTOOLROLL_SANITIZE=thread ;;
    fuzz) if [[ $wanted -eq 0 ]]; then fuzz optional; else fuzz; fi ;;
  esac
done
echo "check_native: ${modes[*]}: passed"
