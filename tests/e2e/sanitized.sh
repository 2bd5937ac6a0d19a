#!/bin/bash
# qrun built with a sanitizer on artifacts that the release qcc made: sanitized.sh QRUN QCC
# Compiled code itself is not instrumented; the runtime around it (mapping, sessions, threads, text, sampling) is.
set -euo pipefail
qrun=$1 qcc=$2
here=$(cd -- "$(dirname -- "$0")" && pwd)
root=$(cd -- "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=halt_on_error=1:detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
passed=0
step() { echo "sanitized: $*"; "$@" >"$work/out" 2>"$work/err" || { echo "FAILED ($?):"; tail -40 "$work/err"; exit 1; }; passed=$((passed + 1)); }

"$qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" -o "$work/m.qbin" -q
ids="$root/tests/golden/tiny/text.ids.txt"
tr -s ' \n' '\n' <"$ids" | head -150 | tr '\n' ' ' >"$work/ids.txt"
step "$qrun" logits "$work/m.qbin" --tokens "$work/ids.txt" -o "$work/a.bin" -t 1
step "$qrun" logits "$work/m.qbin" --tokens "$work/ids.txt" -o "$work/b.bin" -t 3 --split 1,7,40
cmp "$work/a.bin" "$work/b.bin"
step "$qrun" "$work/m.qbin" --raw -n 24 --seed 7 -p "The state of the union is" -t 2
step "$qrun" "$work/m.qbin" -n 24 --temp 0 -p "What must we do for our country?"
step "$qrun" "$work/m.qbin" --raw -n 400 --ctx 64 -p "KING RICHARD III:" -t 2
step "$qrun" tokenize "$work/m.qbin" -p "Grüße, 世界! <|im_end|>" --special
step "$qrun" check "$work/m.qbin"
head -c 100000 "$work/m.qbin" >"$work/cut.qbin"
if "$qrun" "$work/cut.qbin" -p x >"$work/out" 2>"$work/err"; then echo "FAILED: a truncated artifact ran"; exit 1; fi
grep -q "qrun: error:" "$work/err" || { echo "FAILED: no clear error:"; cat "$work/err"; exit 1; }
passed=$((passed + 1))
echo "$passed passed, 0 failed"
