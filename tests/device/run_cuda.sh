#!/bin/bash
# Everything that only a machine with an NVIDIA GPU can show: the conformance suite and the goldens on CUDA, the memory
# checker on a small model, and speeds beside the device's copy bandwidth. Needs a CUDA driver and either a built tree
# or the sources and what tools/install_deps.sh installs.
#
#   tests/device/run_cuda.sh [BUILD]     BUILD: a build folder of this tree, default build/release (built if missing)
#
# Exit code: 0 only if every stage passed. A machine without a CUDA device is an error here, not a skip.
set -uo pipefail
root=$(cd -- "$(dirname -- "$0")/../.." && pwd)
build=${1:-$root/build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
stage() {
  printf '\n=== %s\n' "$1"
  shift
  "$@" || failed+=("$*")
}

if [ ! -x "$build/bin/qcc" ] || [ ! -x "$build/bin/device_linear_test" ]; then
  cmake --preset release -S "$root" >/dev/null && cmake --build --preset release || exit 1
  build=$root/build/release
fi
bin=$build/bin
if ! "$bin/qrun" devices | grep -E '^cuda:[0-9]' ; then
  echo "run_cuda.sh: no usable CUDA device:" >&2
  "$bin/qrun" devices >&2
  exit 1
fi

for test in "$bin"/device_*_test; do
  case $test in */device_cuda_test | */device_vulkan_test) continue ;; esac
  stage "conformance: $(basename "$test")" "$test" --gtest_filter='*cuda*'
done
stage "goldens, cuts, greedy tokens" python3 "$root/tests/e2e/test_gpu_models.py" --bin "$bin" --device cuda

model=$work/tiny.qbin
stage "compile the default model" "$bin/qcc" compile "$root/assets/tiny-qwen35-q8_0.gguf" --target=cpu,cuda -q -o "$model"
stage "check values" "$bin/qrun" check "$model" --device=cuda
checker=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$checker" ]; then
  for tool in memcheck racecheck synccheck; do
    stage "compute-sanitizer $tool" "$checker" --tool "$tool" --error-exitcode 1 \
      "$bin/qrun" "$model" --device=cuda --raw -n 8 --temp 0 -p "My name is"
  done
else
  echo "compute-sanitizer is not installed: memory checks left out"
fi

stage "speed" python3 "$root/benchmarks/model/gpu_speed.py" --bin "$bin" --device cuda

if [ ${#failed[@]} -ne 0 ]; then
  printf '\nfailed:\n'
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '\nall passed\n'
