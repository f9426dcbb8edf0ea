#!/bin/sh
# Installs into a staging folder, builds the example from there with nothing but pkg-config, and runs it.
# Usage: install.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 build=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
passed=0

# Runs a command; its exit code must be $1. The name of the check is $2.
check() {
  expected=$1 name=$2
  shift 2
  code=0
  "$@" >"$stage/output" 2>&1 || code=$?
  if [ $code != "$expected" ]; then
    cat "$stage/output"
    echo "$name: exit code $code, expected $expected: $*"
    echo "[  FAILED  ] 1 test(s)"
    exit 1
  fi
  passed=$((passed + 1))
}
# The file $2 must hold a line like $3; "output" is what the last command said.
holds() {
  cp "$stage/$2" "$stage/held"
  check 0 "$1" grep -q "$3" "$stage/held"
}

check 0 'make install' env DESTDIR="$stage" cmake --install "$build"
pc=$(find "$stage" -name ronde.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir ronde)
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH

check 0 'the library has a soname' sh -c "objdump -p '$libdir/libronde.so' | grep -q 'SONAME *libronde.so.0.1'"
nm -D --defined-only "$libdir/libronde.so" | awk '{ print $NF }' >"$stage/symbols"
holds 'the library gives the public functions' symbols '^ronde_train$'
check 1 'and nothing else' grep -vE '^ronde_[a-z]' "$stage/symbols"
ronde=$(find "$stage" -path '*/bin/ronde')
check 0 'the installed program runs' "$ronde" version
check 0 'and says its version' "$ronde" -V
holds 'by its number' output '^ronde *[0-9]'

# The manual and the completions are those of the installed program.
page=$(find "$stage" -path '*/man1/ronde.1')
check 0 'the manual page is installed' test -s "$page"
check 0 'it has every option of training' sh -c "'$ronde' train --help | sed -n 's/^  --\(\[no-\]\)\{0,1\}\([a-z-]*\).*/\2/p' |
  while read -r name; do grep -q -- \"\$(echo \$name | sed 's/-/\\\\\\\\-/g')\" '$page' || { echo no \$name; exit 1; }; done"
if command -v groff >/dev/null 2>&1; then
  groff -man -Tascii -ww "$page" >"$stage/formatted" 2>"$stage/warnings"
  check 1 'groff finds nothing wrong with it' test -s "$stage/warnings"
fi
completion=$(find "$stage" -path '*/bash-completion/completions/ronde')
cat >"$stage/complete.bash" <<'END'
compopt() { :; } # of an interactive shell alone
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_ronde
printf '%s\n' "${COMPREPLY[@]}"
END
if command -v bash >/dev/null 2>&1; then
  complete() { check 0 'completion runs' bash "$stage/complete.bash" "$completion" "$@"; }
  complete ronde tr
  holds 'of verbs' output '^train$'
  complete ronde train --strat
  holds 'of options' output '^--strategy$'
  complete ronde train --strategy ps-
  holds 'of choices' output '^ps-sync$'
  complete ronde train --model res
  holds 'of networks' output '^resnet50$'
  complete ronde bench st
  holds 'of suites' output '^step$'
  complete ronde ckpt ver
  holds 'of actions' output '^verify$'
fi
for shell in zsh fish; do
  command -v $shell >/dev/null 2>&1 || continue
  "$ronde" manual $shell >"$stage/completion"
  check 0 "$shell reads it" $shell -n "$stage/completion"
done
for action in 'data list' 'data info' 'data get' 'data convert' 'ckpt info' 'ckpt verify' 'ckpt diff' 'manual man'; do
  "$ronde" $action >"$stage/output" 2>&1 || true
  cp "$stage/output" "$stage/said"
  check 1 "$action is one" grep -q 'no such' "$stage/said"
  check 0 'and completed' grep -q "${action#* }" "$completion"
done
for form in bash-completion/completions/ronde site-functions/_ronde vendor_completions.d/ronde.fish; do
  check 0 "$form is installed" grep -q strategy "$(find "$stage" -path "*/$form")"
done
for document in README.md LICENSE docs/using.md examples/custom_net.c; do
  check 0 "$document is installed" test -s "$(find "$stage" -path "*/doc/ronde/$document")"
done
find "$stage" -path '*/doc/ronde/*.md' | while read -r page; do
  grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | grep -v -e '^http' -e '^$' | while read -r link; do
    [ -e "$(dirname "$page")/$link" ] || echo "$page: $link is not there"
  done
done >"$stage/broken"
check 1 'what the documents lead to is installed' grep . "$stage/broken"

cp "$source"/examples/*.c "$source"/examples/*.cc "$stage"
cd "$stage"
compiler=${CC:-cc}
check 0 'the example compiles' $compiler -std=gnu11 -Wall -Wextra -Werror custom_net.c \
  $(pkg-config --cflags --libs ronde) -lm -o shared
check 0 'it links statically' $compiler -std=gnu11 custom_net.c $(pkg-config --cflags ronde) "$libdir/libronde.a" \
  $(pkg-config --libs-only-L --libs-only-l --static ronde | sed 's/-lronde //') -lm -o static
echo '#include <ronde/measure.h>
int main(void) {
  ronde_statistics statistics;
  double rounds[] = {1, 2, 3};
  return !ronde_version() || ronde_statistics_of_rounds(rounds, 3, &statistics) || statistics.median != 2;
}' >measure.c
check 0 'the second header stands by itself' $compiler -std=c11 -Wall -Wextra -Werror measure.c \
  $(pkg-config --cflags --libs ronde) -o measure
check 0 'and its calls are in the library' ./measure
check 0 'the example of prediction compiles' $compiler -std=gnu11 -Wall -Wextra -Werror predict.c \
  $(pkg-config --cflags --libs ronde) -lm -lpthread -o predict
check 0 'it trains and predicts' ./predict
echo '#include <ronde/ronde.h>
int main(void) {
  ronde_statistics *statistics = 0;
  return !statistics;
}' >first.c
check 1 'the first header has nothing of it' $compiler -std=c11 -c first.c $(pkg-config --cflags ronde) -o first.o
if command -v c++ >/dev/null 2>&1; then
  cp measure.c plus.cc
  check 0 'the headers are C++ as well' c++ -Wall -Werror plus.cc $(pkg-config --cflags --libs ronde) -o plus
  check 0 'the example in C++ compiles' c++ -std=c++17 -Wall -Wextra -Werror predict.cc \
    $(pkg-config --cflags --libs ronde) -o predict_cc
  check 0 'weights are made' "$(find "$stage" -path '*/bin/ronde')" init --model lenet5 -o weights
  check 0 'and asked from C++' ./predict_cc weights
  check 3 'a file that is none is refused' ./predict_cc predict.cc
fi
check 0 'cross entropy falls' ./shared classify
check 0 'squared error falls' ./shared regress
check 0 'the static one learns too' ./static classify
check 130 'cancel is heard' ./shared classify 5
holds 'at once' output 'after [567] steps'
echo "[  PASSED  ] $passed test(s)"
