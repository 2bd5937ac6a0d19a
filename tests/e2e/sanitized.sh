#!/bin/bash
# qrun built with a sanitizer, and beside it step_back and speculate, on artifacts that the release qcc made:
# sanitized.sh QRUN QCC. Compiled code itself is not instrumented; the runtime around it (mapping, sessions, threads, text,
# sampling) is.
set -euo pipefail
qrun=$(realpath "$1") qcc=$(realpath "$2")
here=$(cd -- "$(dirname -- "$0")" && pwd)
root=$(cd -- "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=halt_on_error=1:detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
passed=0
step() { echo "sanitized: $*"; "$@" >"$work/out" 2>"$work/err" || { echo "FAILED ($?):"; tail -40 "$work/err"; exit 1; }; passed=$((passed + 1)); }
# refused CODE COMMAND...: an error of this exit code, told by qrun itself and not by a sanitizer.
refused() {
  local want=$1 got=0
  shift
  echo "sanitized, refused: $*"
  "$@" >"$work/out" 2>"$work/err" || got=$?
  if [ $got -ne "$want" ] || ! grep -q "^qrun: error: .*\[Q[0-9]*\]$" "$work/err" || grep -qE "Sanitizer|runtime error" "$work/err"; then
    echo "FAILED: exit $got, want $want:"
    tail -40 "$work/err"
    exit 1
  fi
  passed=$((passed + 1))
}

model=$work/m.qbin
"$qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" -o "$model" -q
ids="$root/tests/golden/tiny/text.ids.txt"
tr -s ' \n' '\n' <"$ids" | head -150 | tr '\n' ' ' >"$work/ids.txt"
levels=$("$qcc" targets | sed -n 's/^cpu  *\([^ ]*\).*/\1/p')
[ -n "$levels" ] || { echo "FAILED: qcc targets lists no level"; exit 1; }
for level in $levels; do
  "$qrun" devices "$model" | grep "cpu $level\b.*runs here" >"$work/out" || { echo "skip $level: not on this machine"; continue; }
  step "$qrun" logits "$model" --tokens "$work/ids.txt" -o "$work/a.bin" -t 1 --cpu $level
  step "$qrun" logits "$model" --tokens "$work/ids.txt" -o "$work/b.bin" -t 3 --split 1,7,40 --cpu $level
  cmp "$work/a.bin" "$work/b.bin"
done
step "$qrun" logits "$model" --tokens "$work/ids.txt" -o "$work/b.bin" -t 2 --split 1
step "$qrun" "$model" -n 24 --temp 0 -p "What must we do for our country?"
step "$qrun" "$model" --raw -n 400 --ctx 64 -p "KING RICHARD III:" -t 2
for seed in 1 2; do step "$(dirname "$qrun")/step_back" "$model" cpu $seed; done
"$qcc" compile "$root/tests/golden/t35-mtp-F32.gguf" --cpu=native --goldens=off -o "$work/mtp.qbin" -q
step "$(dirname "$qrun")/speculate" "$work/mtp.qbin" cpu
step "$qrun" perplexity "$model" -f "$root/tests/golden/tiny/text.txt" -t 2
step "$qrun" bench "$model" -p 40 -n 4 -d 30 -r 2 -t 3 --json
step "$qrun" tokenize "$model" -p "Grüße, 世界! <|im_end|>" --special
step "$qrun" tokenize "$model" -f "$root/tests/golden/tiny/text.txt"
step "$qrun" check "$model"
step "$qrun" devices "$model"

size=$(stat -c %s "$model")
for cut in 0 7 100 4096 100000 $((size / 2)) $((size - 1)); do
  head -c "$cut" "$model" >"$work/cut.qbin"
  refused 4 "$qrun" "$work/cut.qbin" -p x
done
# A bit in header and table, and in the beginning, middle and end of every section that is checked before use.
"$qcc" inspect "$model" --json >"$work/inspect.json"
places=$(python3 - "$work/inspect.json" <<'PY'
import json, sys
print(20, 60, 100)
for s in json.load(open(sys.argv[1]))["sections"]:
    if s["kind"] != "weights":
        print(s["offset"], s["offset"] + s["size"] // 2, s["offset"] + s["size"] - 1)
PY
)
for at in $places; do
  cp "$model" "$work/flip.qbin"
  byte=$(od -An -tu1 -j "$at" -N1 "$model")
  printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$work/flip.qbin" bs=1 seek="$at" conv=notrunc status=none
  refused 4 "$qrun" "$work/flip.qbin" -p x
done
# The weights are most of the file, so its middle is theirs; they are checked on request.
cp "$model" "$work/flip.qbin"
printf '\x5a\xa5\x5a' | dd of="$work/flip.qbin" bs=1 seek=$((size / 2)) conv=notrunc status=none
refused 4 "$qrun" check "$work/flip.qbin"

# The cases of the command line that talk to a model: sampling, streaming, signals, chat on a terminal, logits.
mkdir "$work/bin" "$work/cli"
ln -s "$qrun" "$work/bin/qrun"
ln -s "$qcc" "$work/bin/qcc"
python3 - "$here" "$model" --bin "$work/bin" --work "$work/cli" <<'PY'
import sys
here, model = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, here)
import test_cli
h = test_cli.quiet_harness("qrun under a sanitizer")
for part in (test_cli.prompts, test_cli.utf8, test_cli.interrupt, test_cli.chat, test_cli.logits):
    part(h, model)
h.finish()
PY
echo "$passed passed, 0 failed"
