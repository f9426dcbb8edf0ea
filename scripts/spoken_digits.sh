#!/bin/sh
# Makes a data set for audio:DIR of spoken digits, by Debian's espeak-ng: recordings of one or two English digits, by voices of
# several accents, at several speeds and pitches. DIR/train and DIR/test have the same voices, DIR/strangers has others.
#   scripts/spoken_digits.sh DIR [TRAINING [TEST]]     1000, and 200 for either test, where no numbers are given
# The same recordings come out wherever espeak-ng is the same.
set -eu
if [ $# -lt 1 ] || [ $# -gt 3 ]; then
  sed -n '2,4s/^# *//p' "$0" >&2
  exit 2
fi
dir=$1 train=${2:-1000} test=${3:-200}
command -v espeak-ng >/dev/null 2>&1 || {
  echo "spoken_digits.sh: error: espeak-ng is not installed (Debian: espeak-ng)" >&2
  exit 3
}
[ ! -e "$dir" ] || {
  echo "spoken_digits.sh: error: $dir is there already" >&2
  exit 3
}

# Lines: part, number, voice, speed, pitch, text. Numbers are drawn by a generator of its own (Park and Miller's), because those of
# awks differ.
draw() {
  awk -v n_train="$train" -v n_test="$test" '
    function draw(n) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * n) }
    function some(text, words, n) { n = split(text, words, " "); return words[1 + draw(n)] }
    function recordings(part, n, accents, variants, i, text) {
      for (i = 1; i <= n; i++) {
        text = some(digits)
        if (draw(2)) text = text " " some(digits)
        print part, sprintf("%05d", i), some(accents) "+" some(variants), 120 + draw(80), 25 + draw(50), text
      }
    }
    BEGIN {
      state = 20111
      digits = "zero one two three four five six seven eight nine"
      accents = "en-us en-gb en-gb-x-rp en-gb-scotland en-gb-x-gbclan en-us-nyc"
      known = "m1 m2 m4 m5 m6 m7 f1 f3 f4"
      recordings("train", n_train, accents, known)
      recordings("test", n_test, accents, known)
      recordings("strangers", n_test, accents, "m3 m8 f2 f5")
    }'
}

mkdir -p "$dir/train" "$dir/test" "$dir/strangers"
draw | while read -r part number voice speed pitch text; do
  espeak-ng -v "$voice" -s "$speed" -p "$pitch" -w "$dir/$part/$number.wav" "$text"
  printf '%s\t%s\n' "$number" "$text" >>"$dir/$part/transcripts.txt"
done
