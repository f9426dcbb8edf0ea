#!/bin/sh
# Builds Ronde and runs every check: unit, golden and command-line tests, the direction of dependencies, the installed
# library with the example, the tests again under sanitizers, those of kernels and ops on an emulated aarch64, and where
# clang is there the fuzzers, some seconds each.
# Ends with "N passed, N failed, N skipped"; exit code 7 where anything failed.
#   --quick   no sanitizers, no aarch64, no fuzzing beyond the corpus
#   --full    also what tests/left_out.txt leaves out, two minutes of churn, and a minute of each fuzzer: hours, before a release
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
builder=
# With the compilers that it has started.
trap '[ -z "$builder" ] || kill $(pgrep -P "$builder") "$builder" 2>/dev/null || true; rm -rf "$results"' EXIT
trap 'exit 130' INT TERM

# Builds the kind $1: release, address, thread, aarch64 or fuzz.
build_kind() {
  targets=
  case $1 in
    release) build_into build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRONDE_LEAVE_OUT=$leave_out ;;
    address) build_into build-address -DRONDE_SANITIZE=address,undefined -DRONDE_LEAVE_OUT=$leave_out ;;
    # Open MPI is not built for the thread sanitizer, which then reports the insides of it.
    thread) build_into build-thread -DRONDE_SANITIZE=thread -DRONDE_MPI=OFF -DRONDE_LEAVE_OUT=$leave_out ;;
    aarch64)
      targets=suites
      build_into build-aarch64 -DCMAKE_TOOLCHAIN_FILE="$PWD/build-aarch64/aarch64.cmake" \
        -DRONDE_SUITES="$(echo $CROSS_SUITES | tr ' ' ';')" -DRONDE_AREAS="$(echo $CROSS_AREAS | tr ' ' ';')"
      ;;
    fuzz)
      targets=fuzzers
      build_into build-fuzz -DCMAKE_C_COMPILER=clang -DRONDE_FUZZ=ON -DRONDE_FUZZ_SECONDS=$fuzz_seconds
      ;;
  esac
}

# Fetches the cross compiler and what it links.
prepare_aarch64() { (need_packages $CROSS_PACKAGES) && scripts/aarch64.sh build-aarch64; }

# Waits until it is there, and prints what was said meanwhile.
fetched() {
  outcome_of_fetch=0
  wait $fetch || outcome_of_fetch=$?
  cat "$results/fetch.log"
  return $outcome_of_fetch
}

# Builds kinds one after another; what aarch64 takes is fetched meanwhile. Of each, KIND.built says how it went: built, failed, or
# missing, where the compiler is not to be had; KIND.log has what was printed.
build_kinds() {
  case " $* " in *' aarch64 '*) prepare_aarch64 >"$results/fetch.log" 2>&1 & fetch=$! ;; esac
  for kind in "$@"; do
    {
      outcome=built
      if [ "$kind" = aarch64 ] && ! fetched; then outcome=missing
      elif ! build_kind "$kind"; then outcome=failed
      fi
    } >"$results/$kind.log" 2>&1
    echo $outcome >"$results/$kind.new"
    mv "$results/$kind.new" "$results/$kind.built"
  done
}

# Runs the tests of the kind $1, headed by $2 in the table, when it is built. Writes a line "suite passed failed skipped seconds" for
# each suite, and the reasons of skipped tests; shows what failed tests said. Under the thread sanitizer memory
# is laid out without chance where that is allowed: Debian 12's knows not every layout of newer kernels.
# Three jobs more than cores: three suites of those that mostly wait run beside the others.
run_suites() {
  kind=$1 label=$2 folder=build-$1 layout= wanted=.
  case $kind in
    release) folder=build ;;
    thread) setarch "$(uname -m)" -R true 2>/dev/null && layout="setarch $(uname -m) -R" ;;
    aarch64) wanted="^($(echo $CROSS_SUITES | tr ' ' '|'))\$" ;;
  esac
  while ! [ -f "$results/$kind.built" ] && kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
  outcome=$(cat "$results/$kind.built" 2>/dev/null || echo failed)
  cat "$results/$kind.log" >&2 || true
  case $outcome in
    failed)
      echo "${label}build 0 1 0 0" >>"$results/suites"
      return
      ;;
    missing)
      echo "${label}suites 0 0 1 0" >>"$results/suites"
      echo "${label}Debian's cross compiler or its arm64 packages are not to be had here" >>"$results/skips"
      return
      ;;
  esac
  while read -r line; do
    [ -z "$line" ] || echo "$label$line" >>"$results/left_out"
  done <"$folder/left_out"
  echo "== $kind: testing in $folder/"
  (cd "$folder" && $layout ctest -V -j"$(($(cores) + 3))" --timeout 600 -R "$wanted" >tests.log 2>&1) || true
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

leave_out=ON fuzz_seconds=2 kinds=
if $full; then leave_out=OFF fuzz_seconds=60; fi
if ! $quick; then
  kinds='address thread'
  [ "$(uname -m)" = aarch64 ] || kinds="$kinds aarch64" # under qemu, on any other machine than those
  if has_libfuzzer; then kinds="$kinds fuzz"
  else
    echo 'fuzz: libFuzzer 0 0 1 0' >>"$results/suites"
    echo 'fuzz: no clang with libFuzzer here: the fuzzers only replay their corpus' >>"$results/skips"
  fi
fi
echo '== release: building into build/'
build_kinds release
# While tests run the other kinds are built, in what these leave of the processors.
{ renice -n 19 "$(exec sh -c 'echo $PPID')" >/dev/null || true; build_kinds $kinds; } &
builder=$!
run_suites release ''
for kind in $kinds; do
  case $kind in
    address) run_suites address 'address+undefined: ' ;;
    *) run_suites $kind "$kind: " ;;
  esac
done
builder=

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
