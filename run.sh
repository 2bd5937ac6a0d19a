#!/bin/sh
# Installs what is missing, builds qcc and qrun, compiles the default model and lets it write.
#   ./run.sh [--target=cpu|vulkan|cuda] [-p "prompt"] [any other qrun option]
# It runs on the first target named: --target=vulkan runs on the machine's Vulkan device, lavapipe if there is no other.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=cpu
prompt="The state of the union is"
while [ $# -gt 0 ]; do
  case "$1" in
    --target=*) target=${1#--target=} ;;
    -p) prompt=$2; shift ;;
    *) break ;;
  esac
  shift
done
"$root/tools/install_deps.sh"
cmake --preset release -S "$root" >/dev/null
cmake --build --preset release --target qcc qrun
bin="$root/build/release/bin"
"$bin/qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" --target="$target" -o "$root/build/tiny.qbin"
printf "%s" "$prompt"
device="--device=${target%%,*}"
for argument in "$@"; do
  case "$argument" in --device*) device="" ;; esac
done
"$bin/qrun" "$root/build/tiny.qbin" ${device:+"$device"} --raw -n 96 --seed 1 -p "$prompt" "$@"
echo
