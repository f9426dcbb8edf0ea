#!/bin/sh
# Holds every source to .clang-format, as version 14 (Debian 12's) lays it out; skipped where there is another or none.
# Usage: format.sh SOURCE_DIR. Ends by planting a badly laid-out file in a copy: it must be found.
set -eu
root=$1
program=
for name in clang-format-14 clang-format; do
  if command -v $name >/dev/null 2>&1 && $name --version | grep -q 'version 14\.'; then program=$name && break; fi
done
if [ -z "$program" ]; then
  echo 'SKIP: no clang-format 14 here: the layout of the sources is not checked'
  exit 77
fi

# Prints the sources below $1 that clang-format would change.
badly_laid_out() (
  cd "$1"
  find src tools tests include fuzz examples -name '*.[ch]' 2>/dev/null | sort |
    xargs $program --dry-run 2>&1 | sed -n 's/:.*clang-format-violations.*//p' | uniq
)

found=$(badly_laid_out "$root")
if [ -n "$found" ]; then
  echo "not laid out as .clang-format says (clang-format -i mends it):" $found >&2
  exit 1
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/src"
cp "$root/.clang-format" "$copy"
echo 'int  planted( void ){return 0;}' >"$copy/src/planted.c"
if [ "$(badly_laid_out "$copy")" != src/planted.c ]; then
  echo 'a planted file was not found' >&2
  exit 1
fi
