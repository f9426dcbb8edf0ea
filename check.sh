#!/bin/sh
# Builds Ronde and runs every check: unit, golden and command-line tests, the direction of dependencies, the installed
# library with the example, the tests again under sanitizers, those of kernels and ops on an emulated aarch64, and where
# clang is there the fuzzers, some seconds each.
# Ends with "N passed, N failed, N skipped"; exit code 7 where anything failed.
#   --quick   no sanitizers, no aarch64, no fuzzing beyond the corpus
#   --full    also what tests/left_out.txt leaves out, and a minute of each fuzzer: hours, before a release
set -eu
cd "$(dirname "$0")"
. scripts/packages.sh

quick=false full=false
for option in "$@"; do
  case $option in
    --quick) quick=true ;;
    --full) full=true ;;
    -h | --help) sed -n '2,7s/^# *//p' "$0"; exit 0 ;;
    *) echo "ronde: error: check.sh: unknown option $option (there are --quick and --full)" >&2; exit 2 ;;
  esac
done
need_packages $BUILD_PACKAGES $TEST_PACKAGES $DATA_PACKAGES

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Builds folder $2 with the options that follow and runs its tests. Writes a line "suite passed failed skipped seconds" for
# each, headed by $1, and the reasons of skipped tests; shows what failed tests said. Under the thread sanitizer memory
# is laid out without chance where that is allowed: Debian 12's knows not every layout of newer kernels.
# Where $only names suites, it runs no others. One job more than cores: one suite of those that mostly wait runs beside the others.
run_suites() {
  label=$1 folder=$2
  shift 2
  echo "== ${label:-release: }building into $folder/"
  if ! build_into "$folder" "$@"; then
    echo "${label}build 0 1 0 0" >>"$results/suites"
    return
  fi
  while read -r line; do
    [ -z "$line" ] || echo "$label$line" >>"$results/left_out"
  done <"$folder/left_out"
  echo "== ${label:-release: }testing"
  layout=
  case $* in *=thread) setarch "$(uname -m)" -R true 2>/dev/null && layout="setarch $(uname -m) -R" ;; esac
  wanted=${only:+^($(echo $only | tr ' ' '|'))\$}
  (cd "$folder" && $layout ctest -V -j"$(($(cores) + 1))" --timeout 600 -R "${wanted:-.}" >tests.log 2>&1) || true
  awk -v label="$label" -v suites="$results/suites" -v skips="$results/skips" '
    function count(line) { sub(/.*\[  (PASSED|FAILED|SKIPPED) +\] /, "", line); return line + 0 }
    /^[0-9]+: / { test = $0; sub(/:.*/, "", test); said[test] = said[test] $0 "\n" }
    /^[0-9]+: .*\[  PASSED  \] [0-9]+ test/ { passed[test] += count($0) }
    /^[0-9]+: .*\[  FAILED  \] [0-9]+ test/ { failed[test] += count($0) }
    /^[0-9]+: .*\[  SKIPPED \] [0-9]+ test/ { skipped[test] += count($0) }
    /^[0-9]+: .*SKIP: / { reason = $0; sub(/.*SKIP: /, "", reason); reasons[test] = reasons[test] "\n" reason }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
      n_run++
      test = name = $0
      sub(/^[^#]*#/, "", test); sub(/:.*/, "", test)
      sub(/^[^:]*: /, "", name); sub(/[ .].*/, "", name)
      good = $0 ~ / Passed /
      if ($0 ~ /[*]Skipped /) skipped[test] = good = 1
      else if (good && !passed[test] && !skipped[test]) passed[test] = 1
      if (!good && !failed[test]) failed[test] = 1
      print label name, passed[test] + 0, failed[test] + 0, skipped[test] + 0, $(NF - 1) >>suites
      n = split(reasons[test], listed, "\n")
      for (i = 2; i <= n; i++) print label name ": " listed[i] >>skips
      if (!good) { print said[test]; print }
    }
    END { if (!n_run) { print "no tests were run"; print label "tests", 0, 1, 0, 0 >>suites } }
  ' "$folder/tests.log"
}

has_libfuzzer() {
  echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return !data && size; }' >"$results/try.c"
  clang -fsanitize=fuzzer,address,undefined "$results/try.c" -o "$results/try" >/dev/null 2>&1
}

# Fetches the cross compiler and what it links, while other builds keep the processors busy.
prepare_aarch64() {
  { (need_packages $CROSS_PACKAGES) && scripts/aarch64.sh build-aarch64; } >"$results/aarch64.log" 2>&1
}

# Under qemu, on any other machine than those.
run_on_aarch64() {
  [ "$(uname -m)" != aarch64 ] || return 0
  if ! wait "$preparing"; then
    cat "$results/aarch64.log" >&2
    echo 'aarch64: suites 0 0 1 0' >>"$results/suites"
    echo "aarch64: Debian's cross compiler or its arm64 packages are not to be had here" >>"$results/skips"
    return
  fi
  only=$CROSS_SUITES targets=suites
  run_suites 'aarch64: ' build-aarch64 -DCMAKE_TOOLCHAIN_FILE="$PWD/build-aarch64/aarch64.cmake" \
    -DRONDE_SUITES="$(echo $CROSS_SUITES | tr ' ' ';')"
  only= targets=
}

only= targets= preparing= leave_out=ON fuzz_seconds=2
if $full; then leave_out=OFF fuzz_seconds=60; fi
if ! $quick && [ "$(uname -m)" != aarch64 ]; then
  prepare_aarch64 &
  preparing=$!
fi
run_suites '' build -DCMAKE_BUILD_TYPE=RelWithDebInfo
if ! $quick; then
  run_suites 'address+undefined: ' build-address -DRONDE_SANITIZE=address,undefined -DRONDE_LEAVE_OUT=$leave_out
  # Open MPI is not built for the thread sanitizer, which then reports the insides of it.
  run_suites 'thread: ' build-thread -DRONDE_SANITIZE=thread -DRONDE_MPI=OFF -DRONDE_LEAVE_OUT=$leave_out
  run_on_aarch64
  if has_libfuzzer; then
    targets=fuzzers
    run_suites 'fuzz: ' build-fuzz -DCMAKE_C_COMPILER=clang -DRONDE_FUZZ=ON -DRONDE_FUZZ_SECONDS=$fuzz_seconds
  else
    echo 'fuzz: libFuzzer 0 0 1 0' >>"$results/suites"
    echo 'fuzz: no clang with libFuzzer here: the fuzzers only replay their corpus' >>"$results/skips"
  fi
fi

echo
awk 'BEGIN { printf "%-50s %7s %7s %7s %8s\n", "suite", "passed", "failed", "skipped", "seconds" }
  { counts = sprintf("%7d %7d %7d %8.1f%s", $(NF-3), $(NF-2), $(NF-1), $NF, $(NF-2) ? "  <--" : "")
    NF -= 4; printf "%-50s %s\n", $0, counts }' "$results/suites"
if [ -s "$results/skips" ]; then
  echo
  echo 'skipped:'
  sed 's/^/  /' "$results/skips"
fi
if [ -s "$results/left_out" ]; then
  echo
  echo 'left out (tests/left_out.txt; --full has them):'
  sed 's/^/  /' "$results/left_out"
fi
echo
awk '{ passed += $(NF-3); failed += $(NF-2); skipped += $(NF-1) }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed ? 7 : 0 }' "$results/suites"
