#!/bin/sh
# Writes a book for text:FILE: the King James Version of the Bible, of Debian's bible-kjv, a verse a line and nothing beside.
#   scripts/book.sh FILE
set -eu
if [ $# -ne 1 ]; then
  sed -n '2,3s/^# *//p' "$0" >&2
  exit 2
fi
command -v bible >/dev/null 2>&1 || {
  echo "book.sh: error: bible is not installed (Debian: bible-kjv)" >&2
  exit 3
}
[ ! -e "$1" ] || {
  echo "book.sh: error: $1 is there already" >&2
  exit 3
}
# Without -f it breaks lines; in front of each verse it says which one it is.
bible -f Gen1:1-Rev22:21 </dev/null | sed 's/^[^:]*:[0-9]* *//' >"$1"
