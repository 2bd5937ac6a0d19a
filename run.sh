#!/bin/sh
# Installs what is missing, builds qcc and qrun, compiles the default model and lets it write.
#   ./run.sh [--target=cpu|vulkan|cuda] [-p "prompt"] [any other qrun option]
# It runs on the first target named: --target=vulkan runs on the machine's Vulkan device, lavapipe if there is no other.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=cpu
prompt="The state of the union is"
left=$#
while [ "$left" -gt 0 ]; do  # once round: what is qrun's goes back to the end
  argument=$1
  shift
  left=$((left - 1))
  case "$argument" in
    --target | -p | --prompt)
      if [ "$left" -eq 0 ]; then
        echo "run.sh: $argument needs a value" >&2
        exit 2
      fi
      argument=$argument=$1
      shift
      left=$((left - 1))
      ;;
  esac
  case "$argument" in
    --target=*) target=${argument#*=} ;;
    -p=* | --prompt=*) prompt=${argument#*=} ;;
    *) set -- "$@" "$argument" ;;
  esac
done
device="--device=${target%%,*}" length="-n96" seed="--seed=1" raw="--raw" asked="-p=$prompt" shown=$prompt
for argument in "$@"; do  # qrun takes each once
  case "$argument" in
    --device* | -ngl* | --gpu-layers*) device="" ;;
    -n* | --predict*) length="" ;;
    -sys* | --system* | --think* | --tools*) raw="" shown="" ;;  # an answer, not what follows
    -s* | --seed*) seed="" ;;
    --raw) raw="" ;;
    -f* | --file*) asked="" shown="" ;;
  esac
done
"$root/tools/install_deps.sh"
cmake --preset release -S "$root" >/dev/null
cmake --build --preset release --target qcc qrun
bin="$root/build/release/bin"
"$bin/qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" --target="$target" -o "$root/build/tiny.qbin"
printf "%s" "$shown"
"$bin/qrun" "$root/build/tiny.qbin" ${device:+"$device"} ${length:+"$length"} ${seed:+"$seed"} ${raw:+"$raw"} ${asked:+"$asked"} "$@"
echo
