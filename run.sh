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
    --target=*) target=${argument#--target=} ;;
    -p) prompt=$1; shift; left=$((left - 1)) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
"$root/tools/install_deps.sh"
cmake --preset release -S "$root" >/dev/null
cmake --build --preset release --target qcc qrun
bin="$root/build/release/bin"
"$bin/qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" --target="$target" -o "$root/build/tiny.qbin"
printf "%s" "$prompt"
device="--device=${target%%,*}" length="-n96" seed="--seed=1" raw="--raw"
for argument in "$@"; do  # qrun takes each once
  case "$argument" in
    --device*) device="" ;;
    -n*) length="" ;;
    --seed*) seed="" ;;
    --raw) raw="" ;;
  esac
done
"$bin/qrun" "$root/build/tiny.qbin" ${device:+"$device"} ${length:+"$length"} ${seed:+"$seed"} ${raw:+"$raw"} -p "$prompt" "$@"
echo
