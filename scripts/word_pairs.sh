#!/bin/sh
# Writes words for pairs:FILE: German words, a TAB and what they are in English, of Debian's trans-de-en (the dictionary of ding).
#   scripts/word_pairs.sh FILE [BYTES]      texts of at most BYTES bytes (23: for --window 24)
# Of an entry it takes the first word and its first translation, without notes and forms: of "Haus {n}; Haus- | Häuser {pl} :: house |
# houses" Haus and house. So plurals of words that are tested are not learned. A German word is there once, a translation may
# be there several times.
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,5s/^# *//p' "$0" >&2
  exit 2
fi
words=/usr/share/trans/de-en
[ -r "$words" ] || {
  echo "word_pairs.sh: error: $words is not there (Debian: trans-de-en)" >&2
  exit 3
}
[ ! -e "$1" ] || {
  echo "word_pairs.sh: error: $1 is there already" >&2
  exit 3
}
LC_ALL=C awk -v most="${2:-23}" '
  function first(text) {
    gsub(/\{[^}]*\}|\[[^]]*\]|\([^)]*\)|<[^>]*>/, "", text)
    sub(/[|;,\/].*/, "", text)
    gsub(/[\t ]+/, " ", text)
    gsub(/^ | $/, "", text)
    return text
  }
  /^#/ { next }
  (at = index($0, " :: ")) > 0 {
    german = first(substr($0, 1, at - 1))
    english = first(substr($0, at + 4))
    if (german == "" || german ~ /[ .!?"-]/ || german in seen) next
    if (english == "" || english ~ /[.!?"]/ || length(german) > most || length(english) > most) next
    seen[german]
    print german "\t" english
  }' "$words" >"$1"
