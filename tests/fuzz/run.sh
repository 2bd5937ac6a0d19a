#!/bin/bash
# Runs every fuzz target of a build for some seconds on a copy of its corpus: run.sh BUILD_DIR SECONDS
# The search begins where the corpus ends; what is found new stays out of the source tree. A crash, a leak, a hang of
# more than 10 s or more than 2 GiB fails; the input that did it is kept in BUILD_DIR/fuzz-failures.
set -euo pipefail
if [ $# -ne 2 ] || [ ! -d "$1" ] || ! [[ $2 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: run.sh BUILD_DIR SECONDS" >&2
  exit 2
fi
build=$(cd -- "$1" && pwd)
seconds=$2
here=$(cd -- "$(dirname -- "$0")" && pwd)
seeds_of_text=$here/../unit/runtime/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=$build/fuzz-failures
passed=0 failed=0

for target in "$build"/bin/*_fuzz; do
  [ -x "$target" ] || continue
  name=$(basename "$target" _fuzz)
  corpus=$work/$name
  mkdir -p "$corpus" "$failures"
  length=4096
  if [ -d "$here/corpus/$name" ]; then
    cp -r "$here/corpus/$name/." "$corpus/"
    length=65536  # containers: the seeds themselves are larger than 4 KiB
  else
    cp -r "$seeds_of_text/." "$corpus/"
  fi
  seeds=$(find "$corpus" -type f | wc -l)
  if [ "$seeds" -eq 0 ]; then
    echo "FAIL $name: no seeds"
    failed=$((failed + 1))
    continue
  fi
  if "$target" -max_total_time="$seconds" -max_len=$length -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$failures/$name-" "$corpus" >"$work/log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    if [ "${runs:-0}" -gt "$seeds" ]; then
      echo "ok   $name: $runs inputs from $seeds seeds"
      passed=$((passed + 1))
      continue
    fi
    echo "FAIL $name: $seeds seeds, ${runs:-no} inputs: nothing was searched"
  else
    echo "FAIL $name: exit $?"
  fi
  tail -40 "$work/log"
  failed=$((failed + 1))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
