#!/bin/sh
# Finds circles of files: groups in which each file calls, directly or through others, every other one of the group. Read from
# the object files of a build: which symbols each defines and which it takes from others.
# Usage: circles.sh BUILD_DIR [CC [NM]]. Ends by planting a circle, which must be found.
set -eu
build=$1
cc=${2:-cc}
nm=${3:-nm}

# Circles that may stay, one per line: their files, a colon, then why. None at present. A part of a circle may stay too; a row
# that is not needed any more must go.
allowed='
'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints each circle among the object files listed in $1 as a line of file names.
circles() {
  tr '\n' '\0' <"$1" | xargs -0 "$nm" -A -P | awk '
    {
      file = $1; sub(/:$/, "", file); sub(/^.*\.dir\//, "", file); sub(/\.o$/, "", file)
      if ($3 ~ /^[TDBRVWC]$/) owner[$2] = file
      else if ($3 ~ /^[Uwv]$/) takes[file, ++n_takes[file]] = $2
    }
    function visit(from, at, k, to) {
      for (k = 1; k <= n_next[at]; k++) {
        to = next_of[at, k]
        if ((from, to) in reached) continue
        reached[from, to] = 1
        visit(from, to)
      }
    }
    END {
      for (file in n_takes)
        for (k = 1; k <= n_takes[file]; k++) {
          symbol = takes[file, k]
          if (symbol in owner && owner[symbol] != file && !((file, owner[symbol]) in edge)) {
            edge[file, owner[symbol]] = 1
            next_of[file, ++n_next[file]] = owner[symbol]
          }
        }
      for (file in n_next) visit(file, file)
      for (file in n_next) {
        if (!((file, file) in reached) || file in done) continue
        n = 0
        for (other in n_next)
          if ((file, other) in reached && (other, file) in reached) { done[other] = 1; member[++n] = other }
        for (i = 2; i <= n; i++) # sorted
          for (j = i; j > 1 && member[j] < member[j - 1]; j--) { t = member[j]; member[j] = member[j - 1]; member[j - 1] = t }
        line = member[1]
        for (i = 2; i <= n; i++) line = line " " member[i]
        print line
      }
    }' | sort
}

# Prints what is wrong with the circles of standard input.
judge() {
  allowed="$allowed" awk '
    BEGIN {
      n = split(ENVIRON["allowed"], rows, "\n")
      for (i = 1; i <= n; i++) if (split(rows[i], pair, ": ") == 2) row[++n_rows] = pair[1]
    }
    {
      fits = 0
      for (r = 1; r <= n_rows; r++) {
        inside = 1
        for (k = 1; k <= NF; k++) if (!index(" " row[r] " ", " " $k " ")) inside = 0
        if (inside) fits = used[r] = 1
      }
      if (!fits) print "a circle of files: " $0
    }
    END { for (r = 1; r <= n_rows; r++) if (!used[r]) print "no circle any more, remove its row: " row[r] }'
}

for target in "$build"/CMakeFiles/ronde_objects.dir "$build"/CMakeFiles/ronde_simd_*.dir "$build"/CMakeFiles/ronde_xsmm.dir \
  "$build"/CMakeFiles/ronde.dir; do
  if [ -d "$target" ]; then find "$target" -name '*.c.o'; fi
done | sort >"$work/objects"
if [ "$(wc -l <"$work/objects")" -lt 100 ]; then
  echo "$build: the object files of a whole build are needed"
  echo "[  FAILED  ] 1 test(s)"
  exit 1
fi

# An object of a file that was removed or renamed stays in the build folder.
while read -r object; do
  source=${object#*.dir/}
  if [ -e "$(dirname "$0")/../${source%.o}" ]; then echo "$object"; fi
done <"$work/objects" >"$work/present"

circles "$work/present" >"$work/circles"
found=$(judge <"$work/circles")
if [ -n "$found" ]; then
  echo "$found"
  echo "[  FAILED  ] $(echo "$found" | wc -l) test(s)"
  exit 1
fi

# A circle of three files, and one that only leads into it.
mkdir -p "$work/planted.dir/src"
plant() {
  echo "void $2(void); void $1(void); void $1(void) { $2(); }" >"$work/planted.dir/src/$1.c"
  "$cc" -c "$work/planted.dir/src/$1.c" -o "$work/planted.dir/src/$1.c.o"
  echo "$work/planted.dir/src/$1.c.o" >>"$work/planted"
}
plant planted_a planted_b
plant planted_b planted_c
plant planted_c planted_a
plant planted_d planted_a
if [ "$(circles "$work/planted" | judge | grep '^a circle')" != \
  "a circle of files: src/planted_a.c src/planted_b.c src/planted_c.c" ]; then
  echo "not found: a circle of three files"
  echo "[  FAILED  ] 1 test(s)"
  exit 1
fi
echo "[  PASSED  ] 2 test(s)"
