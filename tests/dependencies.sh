#!/bin/sh
# Holds the direction of dependencies: each area of src/ includes only the areas below it, tools/ only the public
# headers, outside libraries only the files that own them; the library never ends the process, prints or handles signals;
# and what belongs to a rank has no other time than the rank's. Tests may see all.
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
measure: measure io base
ops: ops kernel tensor base
graph: graph ops prof kernel tensor base
models: models base
onnx: onnx graph ops io tensor base
optim: optim kernel tensor base
data: data io kernel tensor base
comm: comm prof kernel base
strategy: strategy config graph comm optim data ops prof kernel tensor base
config: config data base
record: record strategy io prof base
job: job config strategy models onnx io data graph comm optim ops prof kernel tensor base
state: state record job config strategy models io data graph comm optim ops prof kernel tensor base
setup: setup state record job config strategy models onnx io data graph comm optim ops prof kernel tensor base
train: train setup state record job config strategy models io data graph comm optim ops prof kernel tensor base
verbs: verbs setup state job config models onnx io data graph optim ops prof kernel tensor base
bench: bench measure setup job config strategy models io data graph comm optim ops prof kernel tensor base
tools:
'

# header: the files that may include it; both are extended regular expressions.
owners='
jansson\.h: src/base/(json|machine)\.[ch] src/data/remote\.[ch] src/data/columns_json\.c src/io/safetensors_(read|write)\.c src/(measure|config|strategy|record|job|state|setup|train|verbs|bench)/.* tools/.*
zlib\.h: src/data/stream\.c
curl/curl\.h: src/io/download\.c
png\.h: src/data/png\.c
(sndfile|samplerate)\.h: src/data/sound\.c
kiss_fftr\.h: src/data/log_mel\.c
j(peglib|error)\.h: src/data/jpeg\.c
openssl/.*: src/comm/seal\.c src/data/store\.c src/io/sha256\.c
xxhash\.h: src/data/cache\.c src/io/checksum\.c
libxsmm.*: src/kernel/gemm_xsmm\.c
onnx\.pb-c\.h: src/onnx/.*
mpi\.h: src/comm/mpi(_process|_hosts|_beat|_message)?\.[ch]
'

# A rank reads clocks, waits, locks and starts threads by its time alone (src/base/time.h). files | what they may do
# nevertheless | why. Tools belong to no rank.
machine='
src/base/(time|wait|system)\.[ch] | clock sleep lock thread | they are the machine'"'"'s time
src/base/base\.h | clock | declares it
src/base/pool\.c | sleep thread | the threads of one computation, of which time sees nothing
src/base/log\.c | lock | one line at a time in the process
src/comm/(threads|host|life|life_net|mpi|mpi_beat|mpi_call|mpi_message|mpi_process)\.[ch] | clock sleep lock thread | transports by the machine'"'"'s time
src/comm/virtual\.[ch] | sleep thread | virtual time: who runs has the baton
src/kernel/gemm_xsmm\.c | lock | the process'"'"'s one just-in-time compiler
src/data/dataset\.c | lock | a file that is mapped once for all ranks; nobody waits for a rank inside it
src/state/predictor\.c | lock | answers threads of a program, which are no ranks
src/data/cache\.c | clock | the age of what others have left in a folder
src/prof/energy\.c | clock | counters of the machine
src/record/record\.c | clock | the date of the run
src/record/steps\.c | clock | how long those who read the file while it grows wait for a line
src/train/train\.c | clock | set-up in front of the ranks
src/measure/measurement\.c | clock | how long a look at the load of the machine was
src/bench/(kernels|stepper|doctor)\.c | clock | they measure the machine
'

# Prints a line for each violation in the tree at $1.
violations() (
  cd "$1"
  # Those of the table of words but the ones that are no strategy's own.
  strategies=$(grep -o 'WORD(STRATEGY_[A-Z_]*, "[^"]*"' src/config/choices.inc | sed 's/.*"\(.*\)"/\1/' |
    grep -vxE 'auto|measured|single' | tr '\n' ' ')
  export layers owners machine strategies
  find src tools \( -name '*.[ch]' -o -name '*.inc' \) ! -name '*_test.c' ! -name '*testing.h' | sort | xargs awk '
    BEGIN {
      n = split(ENVIRON["layers"], rows, "\n")
      for (i = 1; i <= n; i++) if (split(rows[i], pair, ":")) allowed[pair[1]] = pair[2] " "
      n_owned = split(ENVIRON["owners"], owned, "\n")
      n_machine = split(ENVIRON["machine"], of_machine, "\n")
      n_strategies = split(ENVIRON["strategies"], strategy, " ")
      if (n_strategies < 8) print "src/config/choices.inc: its strategies were not found"
      word = "(^|[^A-Za-z0-9_])"
      pattern["clock"] = word "(clock_gettime|gettimeofday|timespec_get|ronde__now_ns|time) *\\("
      pattern["sleep"] = word "((clock_)?nanosleep|u?sleep|sched_yield|poll|select|pthread_cond_[a-z]*wait|" \
                         "sem_[a-z]*wait|futex|ronde__event_(wait|sleep|block|signal)) *\\(|SYS_futex"
      pattern["lock"] = word "(pthread_(mutex|rwlock|spin|barrier)_[a-z]+|mtx_[a-z]+) *\\("
      pattern["thread"] = word "(pthread_(create|join)|pthread_[a-z]*join_np|thrd_[a-z]+) *\\("
    }
    FNR == 1 {
      area = FILENAME; sub(/^src\//, "", area); sub(/\/.*/, "", area)
      if (!(area in allowed)) print FILENAME ": the area " area " has no row in tests/dependencies.sh"
    }
    FNR == 1 { in_comment = 0 }
    {
      code = $0
      if (in_comment && sub(/^.*\*\//, "", code)) in_comment = 0
      if (in_comment) code = ""
      sub(/\/\/.*/, "", code)
      gsub(/\/\*.*\*\//, "", code)
      if (sub(/\/\*.*/, "", code)) in_comment = 1
    }
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
    FILENAME !~ /^src\/strategy\// && FILENAME != "src/config/choices.inc" {
      for (i = 1; i <= n_strategies; i++)
        if (index(code, "\"" strategy[i] "\"")) print FILENAME ":" FNR ": the name of a strategy, which owns its policy"
    }
    FILENAME ~ /^src\// {
      gsub(/"[^"]*"/, "\"\"", code)
      if (code ~ /(^|[^A-Za-z0-9_.>])(_?exit|_Exit|abort|v?printf|puts|putchar|perror|signal|sigaction) *\(/ ||
          code ~ /f(printf|puts|write|putc) *\([^;]*(stdout|stderr)/)
        print FILENAME ":" FNR ": the library ends no process, prints nothing and handles no signals"
      for (kind in pattern) {
        if (code !~ pattern[kind]) continue
        found = 0
        for (i = 1; i <= n_machine; i++) {
          if (split(of_machine[i], row, " [|] ") != 3 || FILENAME !~ "^" row[1] "$" || !index(row[2], kind)) continue
          found = used[i, kind] = 1
        }
        if (!found) print FILENAME ":" FNR ": a " kind " that is not by the time of the rank (src/base/time.h)"
      }
    }
    END {
      for (i = 1; i <= n_machine; i++) {
        n_kinds = split(of_machine[i], row, " [|] ") == 3 ? split(row[2], kinds, " ") : 0
        for (j = 1; j <= n_kinds; j++)
          if (!((i, kinds[j]) in used)) print "tests/dependencies.sh: no " kinds[j] " is left in " row[1]
      }
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
mkdir "$copy/tree"
cp -r "$root/src" "$root/tools" "$copy/tree"
n_planted=0

# Plants line $2 in file $1 of the copy: in one of that name and a number where the tree has none.
plant() {
  n_planted=$((n_planted + 1))
  file=$1
  [ -f "$root/$file" ] || file=${file%.*}$n_planted.${file##*.}
  mkdir -p "$copy/tree/$(dirname "$file")"
  echo "$2" >>"$copy/tree/$file"
  echo "$file: $2" >>"$copy/planted"
}
plant src/base/planted.c '#include "graph/graph.h"'
plant src/models/planted.c '#include "graph/graph.h"'
plant src/ops/planted.h '# include "strategy/strategy.h"'
plant src/kernel/planted.c '#include <libxsmm.h>'
plant src/graph/planted.c '#include <jansson.h>'
plant src/job/planted.c '#include <onnx.pb-c.h>'
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
plant src/measure/planted.c '#include "bench/stepper.h"'
plant src/verbs/planted.c '#include "train/run.h"'
plant src/train/planted.c '  uint64_t now = ronde__now_ns();'
plant src/prof/planted.c '  clock_gettime(CLOCK_MONOTONIC, &t);'
plant src/strategy/planted.c '  seed = time(NULL);'
plant src/train/planted.c '  nanosleep(&t, NULL);'
plant src/strategy/planted.c '  if (!ready) sleep(1);'
plant src/data/planted.c '  pthread_cond_timedwait(&changed, &mutex, &until);'
plant src/comm/planted.c '  ronde__event_wait(&event, seen, 0);'
plant src/state/planted.c '  sem_wait(&done);'
plant src/comm/planted.c '  syscall(SYS_futex, word, FUTEX_WAIT, 1, NULL, NULL, 0);'
plant src/data/loader.c '  pthread_mutex_lock(&l->mutex);'
plant src/verbs/planted.c '  pthread_create(&thread, NULL, run, arg);'
plant src/data/cache.c '  pthread_join(thread, NULL);'
plant src/train/planted.c '  if (!strcmp(name, "ps-async")) return 1;'
plant tools/planted.c '  json_object_get(communication, "localsgd");'

violations "$copy/tree" >"$copy/found"
n_missed=0
while IFS= read -r planted; do
  grep -q "^${planted%%: *}:" "$copy/found" && continue
  echo "not found in $planted"
  n_missed=$((n_missed + 1))
done <"$copy/planted"
[ $n_missed = 0 ] || echo "[  FAILED  ] $n_missed test(s)"
[ $n_missed = 0 ] || exit 1
echo "[  PASSED  ] $((n_planted + 1)) test(s)"
