#!/bin/sh
# A row of src/config/options.inc that leaves a fact out does not compile. Each planted one is tried in a copy; one that
# says all of it compiles, and so does the table as it is.
# Usage: options.sh SOURCE_DIR [COMPILER].
set -eu
root=$1
cc=${2:-cc}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
passed=0

# Whether the table compiles with a row more.
compiles() {
  rm -rf "$copy/src"
  mkdir "$copy/src"
  cp -r "$root/src/config" "$copy/src"
  awk -v row="$1" '/^#undef T$/ { print row } { print }' "$root/src/config/options.inc" >"$copy/src/config/options.inc"
  "$cc" -std=gnu11 -fsyntax-only -D_GNU_SOURCE -I "$copy/src" -I "$root/src" -I "$root/include" \
    "$copy/src/config/config.c" 2>"$copy/errors"
}

check() {
  wanted=$1
  if compiles "$2"; then got=yes; else got=no; fi
  if [ $got != "$wanted" ]; then
    echo "compiles: $got, not $wanted: $2"
    head -5 "$copy/errors"
    echo '[  FAILED  ] 1 test(s)'
    exit 1
  fi
  passed=$((passed + 1))
}

check yes ''
check yes 'RONDE_OPTION(BOOL, planted, "planted", T, "data", FIXED, SAME, NOTHING, DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(BOOL, planted, "planted", T, "data", FIXED, SAME, DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(BOOL, planted, "planted", T, "data", FIXED, NOTHING, DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(BOOL, planted, "planted", T, "data", SAME, NOTHING, DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(BOOL, planted, "planted", T, "data", MAYBE, SAME, NOTHING, DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(BOOL, planted, "planted", T, "data", FIXED, SAME, NEEDS(LUCK), DEFAULT("off"), HELP("?"))'
check no 'RONDE_OPTION(ENUM, planted, "planted", T, "data", FIXED, SAME, NOTHING, CHOICES(NONE), HELP("?"))'
echo "[  PASSED  ] $passed test(s)"
