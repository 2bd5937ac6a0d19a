#!/bin/bash
# Runs every fuzz target of a build for some seconds on a copy of its corpus: run.sh BUILD_DIR SECONDS [NAME=SECONDS ...]
# The search begins where the corpus ends; what is found new stays out of the source tree. A crash, a leak, a hang of
# more than 10 s or more than 2 GiB fails; the input that did it is kept in BUILD_DIR/fuzz-failures.
set -euo pipefail
usage() {
  echo "usage: run.sh BUILD_DIR SECONDS [NAME=SECONDS ...]${1:+: $1}" >&2
  exit 2
}
if [ $# -lt 2 ] || [ ! -d "$1" ] || ! [[ $2 =~ ^[1-9][0-9]*$ ]]; then usage; fi
build=$(cd -- "$1" && pwd)
seconds=$2
shift 2
declare -A longer
for entry in "$@"; do
  [[ $entry =~ ^([a-z_]+)=([1-9][0-9]*)$ ]] || usage "$entry"
  [ -x "$build/bin/${BASH_REMATCH[1]}_fuzz" ] || usage "there is no $build/bin/${BASH_REMATCH[1]}_fuzz"
  longer[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
done
here=$(cd -- "$(dirname -- "$0")" && pwd)
seeds_of_text=$here/../unit/runtime/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=$build/fuzz-failures
mkdir -p "$failures"

# Prints `ok NAME: ...` or `FAIL NAME: ...` and the end of its log.
fuzz() {
  local target=$1 name corpus length=4096 seeds runs status=0 of
  name=$(basename "$target" _fuzz)
  case $name in
    import | plan) of=model ;;
    *) of=$name ;;
  esac
  corpus=$work/$name
  mkdir -p "$corpus"
  if [ -d "$here/corpus/$of" ]; then
    cp -r "$here/corpus/$of/." "$corpus/"
    length=65536  # containers: the seeds themselves are larger than 4 KiB
  else
    cp -r "$seeds_of_text/." "$corpus/"
  fi
  seeds=$(find "$corpus" -type f | wc -l)
  if [ "$seeds" -eq 0 ]; then
    echo "FAIL $name: no seeds"
    return
  fi
  "$target" -max_total_time="${longer[$name]:-$seconds}" -max_len=$length -timeout=100 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$failures/$name-" "$corpus" >"$work/$name.log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
  if [ $status -eq 0 ] && [ "${runs:-0}" -gt "$seeds" ]; then
    echo "ok   $name: $runs inputs from $seeds seeds"
  elif [ $status -eq 0 ]; then
    echo "FAIL $name: $seeds seeds, ${runs:-no} inputs: nothing was searched"
  else
    echo "FAIL $name: exit $status"
    tail -40 "$work/$name.log"
  fi
}

# As many at a time as there are processors: each has one thread. The longest first.
targets=()
for name in "${!longer[@]}"; do targets+=("$build/bin/${name}_fuzz"); done
for target in "$build"/bin/*_fuzz; do
  name=$(basename "$target" _fuzz)
  if [ -x "$target" ] && [ -z "${longer[$name]:-}" ]; then targets+=("$target"); fi
done
results=()
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  results+=("$work/$(basename "$target").result")
  fuzz "$target" >"${results[-1]}" &
done
wait
passed=0 failed=0
for result in "${results[@]}"; do
  cat "$result"
  if grep -q '^ok ' "$result"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
