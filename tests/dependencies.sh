#!/bin/sh
# Holds the direction of dependencies: each area of src/ includes only the areas below it, tools/ only the public
# header, outside libraries only the files that own them; and the library never ends the process, prints or handles
# signals. Tests may see all.
# Usage: dependencies.sh SOURCE_DIR. Ends by planting violations in a copy: each must be found.
set -eu
root=$1

# area: the areas it may include.
layers='
base: base
prof: prof base
tensor: tensor base
kernel: kernel tensor base
io: io tensor base
ops: ops kernel tensor base
graph: graph ops prof kernel tensor base
models: models base
optim: optim kernel tensor base
data: data io kernel tensor base
comm: comm prof kernel base
strategy: strategy config graph comm optim data ops prof kernel tensor base
config: config data base
record: record strategy io prof base
job: job config strategy models io data graph comm optim ops prof kernel tensor base
state: state record job config strategy models io data graph comm optim ops prof kernel tensor base
setup: setup state record job config strategy models io data graph comm optim ops prof kernel tensor base
train: train setup state record job config strategy models io data graph comm optim ops prof kernel tensor base
verbs: verbs setup state job config models io data graph optim ops prof kernel tensor base
bench: bench setup job config strategy models io data graph comm optim ops prof kernel tensor base
tools:
'

# header: the files that may include it; both are extended regular expressions.
owners='
jansson\.h: src/base/(json|machine)\.[ch] src/data/remote\.[ch] src/io/safetensors_(read|write)\.c src/(config|strategy|record|job|state|setup|train|verbs|bench)/.* tools/.*
zlib\.h: src/data/stream\.c
curl/curl\.h: src/io/download\.c
png\.h: src/data/png\.c
j(peglib|error)\.h: src/data/jpeg\.c
openssl/.*: src/data/store\.c src/io/sha256\.c
xxhash\.h: src/data/cache\.c src/io/checksum\.c
libxsmm.*: src/kernel/gemm_xsmm\.c
mpi\.h: src/comm/mpi(_process|_hosts|_beat)?\.[ch]
'

# Prints a line for each violation in the tree at $1.
violations() (
  cd "$1"
  export layers owners
  find src tools \( -name '*.[ch]' -o -name '*.inc' \) ! -name '*_test.c' ! -name '*testing.h' | sort | xargs awk '
    BEGIN {
      n = split(ENVIRON["layers"], rows, "\n")
      for (i = 1; i <= n; i++) if (split(rows[i], pair, ":")) allowed[pair[1]] = pair[2] " "
      n_owned = split(ENVIRON["owners"], owned, "\n")
    }
    FNR == 1 {
      area = FILENAME; sub(/^src\//, "", area); sub(/\/.*/, "", area)
      if (!(area in allowed)) print FILENAME ": the area " area " has no row in tests/dependencies.sh"
    }
    { code = $0; sub(/\/\/.*/, "", code); gsub(/\/\*.*\*\//, "", code) }
    code ~ /^ *# *include *"/ {
      header = code; sub(/^[^"]*"/, "", header); sub(/".*/, "", header)
      target = header
      if (!sub(/\/.*/, "", target)) {
        path = FILENAME; sub(/[^\/]*$/, header, path)
        if ((getline line < path) >= 0) { close(path); next }
      }
      if (!index(allowed[area], " " target " ")) print FILENAME ": " area " may not include " header
    }
    code ~ /^ *# *include *</ {
      header = code; sub(/^[^<]*</, "", header); sub(/>.*/, "", header)
      for (i = 1; i <= n_owned; i++) {
        if (!split(owned[i], pair, ":") || header !~ "^" pair[1] "$") continue
        n_files = split(pair[2], files, " ")
        found = 0
        for (j = 1; j <= n_files; j++) if (FILENAME ~ "^" files[j] "$") found = 1
        if (!found) print FILENAME ": may not include <" header ">, which belongs to" pair[2]
      }
    }
    FILENAME ~ /^src\// && FILENAME != "src/comm/tags.h" && code ~ /[^A-Za-z0-9]TAG_[A-Z_]+ *(=|[0-9]) *[0-9]/ {
      print FILENAME ":" FNR ": a message tag that is not one of src/comm/tags.h"
    }
    FILENAME ~ /^src\// {
      gsub(/"[^"]*"/, "\"\"", code)
      if (code ~ /(^|[^A-Za-z0-9_.>])(_?exit|_Exit|abort|v?printf|puts|putchar|perror|signal|sigaction) *\(/ ||
          code ~ /f(printf|puts|write|putc) *\([^;]*(stdout|stderr)/)
        print FILENAME ":" FNR ": the library ends no process, prints nothing and handles no signals"
    }'
)

found=$(violations "$root")
if [ -n "$found" ]; then
  echo "$found"
  echo "[  FAILED  ] $(echo "$found" | wc -l) test(s)"
  exit 1
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
passed=1

# Plants line $2 in file $1 of a copy and wants it found.
plant() {
  rm -rf "$copy/tree"
  mkdir "$copy/tree"
  cp -r "$root/src" "$root/tools" "$copy/tree"
  mkdir -p "$copy/tree/$(dirname "$1")"
  echo "$2" >>"$copy/tree/$1"
  if ! violations "$copy/tree" | grep -q "^$1"; then
    echo "not found in $1: $2"
    echo "[  FAILED  ] 1 test(s)"
    exit 1
  fi
  passed=$((passed + 1))
}
plant src/base/planted.c '#include "graph/graph.h"'
plant src/models/planted.c '#include "graph/graph.h"'
plant src/ops/planted.h '# include "strategy/strategy.h"'
plant src/kernel/planted.c '#include <libxsmm.h>'
plant src/graph/planted.c '#include <jansson.h>'
plant tools/planted.c '#include "base/base.h"'
plant src/novel/planted.c '#include <stddef.h>'
plant src/io/planted.c 'void f(void) { printf("%d", 1); }'
plant src/io/planted.c 'void f(void) { fprintf(stderr, "x"); }'
plant src/data/planted.c '  if (!p) abort();'
plant src/train/planted.c '  exit(1);'
plant src/train/planted.c 'enum { TAG_MINE = 3 };'
plant src/setup/planted.c '#include "train/rank.h"'
plant src/state/planted.c '#include "setup/setup.h"'
plant src/config/planted.c '#include "job/job.h"'
plant src/verbs/planted.c '#include "train/run.h"'
echo "[  PASSED  ] $passed test(s)"
