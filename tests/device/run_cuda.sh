#!/bin/bash
# Everything that only a machine with an NVIDIA GPU can show: the conformance suite and the goldens on CUDA, the memory
# checker on small models, and speeds beside the device's copy bandwidth, on Vulkan too where that has a GPU. Needs a
# CUDA driver, compute-sanitizer, and either a built tree or the sources and what tools/install_deps.sh installs.
#
#   tests/device/run_cuda.sh [OPTION...] [BUILD]     BUILD: a build folder of this tree, default build/release (built if
#                                                    missing), or what make_kit.sh made, where nothing is installed
#     --without-sanitizer          go on without compute-sanitizer; the last line says so
#     --no-bounds                  speeds are printed and not judged
#     --llama-bench PATH[,PATH]    measure llama.cpp beside ours (benchmarks/model/gpu_speed.py)
#     --profile-stages DIR         the time of each kernel of what is measured, as files there
#
# Exit code: 0 only if every stage passed. A machine without a CUDA device, or without compute-sanitizer unless that is
# waived, is an error here, not a skip.
set -uo pipefail
root=$(cd -- "$(dirname -- "$0")/../.." && pwd)
build=$root/build/release
sanitize=yes
speed_options=()
while [ $# -ne 0 ]; do
  case $1 in
    --without-sanitizer) sanitize=no ;;
    --no-bounds) speed_options+=(--no-bounds) ;;
    --llama-bench=* | --profile-stages=*) speed_options+=("$1") ;;
    --llama-bench | --profile-stages)
      speed_options+=("$1=${2:?$1 needs a path}")
      shift
      ;;
    -*)
      echo "run_cuda.sh: unknown option $1" >&2
      exit 2
      ;;
    *) build=$1 ;;
  esac
  shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
skipped=()
stage() {
  printf '\n=== %s\n' "$1"
  shift
  "$@" || failed+=("$*")
}

if [ ! -x "$build/bin/qcc" ] || [ ! -x "$build/bin/device_linear_test" ] && [ ! -x "$build/bin/device_all_test" ]; then
  cmake --preset release -S "$root" >/dev/null && cmake --build --preset release || exit 1
  build=$root/build/release
fi
bin=$build/bin
if [ -f "$build/source_dir" ]; then  # a kit: its programs look for goldens where this tree was
  tree=$(cat "$build/source_dir")
  [ -e "$tree" ] || { mkdir -p "$(dirname "$tree")" && ln -s "$root" "$tree"; }
fi
devices=$("$bin/qrun" devices)
# usable KIND: its devices that can be used, without those that are a program on the CPU.
usable() { grep -E "^$1:[0-9]" <<< "$devices" | grep -v -e 'cannot be used' -e ', cpu, '; }
if ! usable cuda; then
  echo "run_cuda.sh: no usable CUDA device:" >&2
  echo "$devices" >&2
  exit 1
fi

for test in "$bin"/device_*_test; do
  case $test in */device_cuda_test | */device_vulkan_test) continue ;; esac
  # A build folder that a kit was made of has every test twice.
  case $test in */device_all_test) [ ! -x "$bin/device_linear_test" ] || continue ;; esac
  stage "conformance: $(basename "$test")" "$test" --gtest_filter='*cuda*'
done
stage "goldens, cuts, greedy tokens" python3 "$root/tests/e2e/test_gpu_models.py" --bin "$bin" --device cuda
# Launches that overlap: only a device shows whether each kernel waits for what it reads.
profiles=sm80
if [ "$("$bin/qrun" devices | grep -c -E '^cuda:.*compute capability (9|1[0-9])\.')" -ne 0 ]; then
  profiles=sm90,sm80
  stage "goldens, cuts, greedy tokens: launches that overlap" python3 "$root/tests/e2e/test_gpu_models.py" --bin "$bin" \
    --device cuda --profile sm90
else
  skipped+=("profile sm90: no device of compute capability 9.0")
fi

# The memory checker sees the kernels that run. A prompt of at most 8 tokens takes a decode bucket; the long one takes a
# prefill bucket, whose kernels are others: attention in blocks, linears on matrix units, many rows of the delta rule.
long="My name is Edward, and I come to tell the king that all his ships are lost; the winds have driven them upon the \
rocks, and no man of the thousand that set out with us in May has seen the shore again."
takes_prefill() {  # MODEL
  local ids
  ids=$("$bin/qrun" tokenize "$1" -p "$long") && [ "$(wc -w <<< "$ids")" -gt 40 ]
}
checker=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ "$sanitize" = yes ] && [ -z "$checker" ]; then
  echo "run_cuda.sh: compute-sanitizer is not installed; --without-sanitizer goes on without it" >&2
  failed+=("compute-sanitizer: not installed")
elif [ "$sanitize" = no ]; then
  skipped+=("compute-sanitizer")
  checker=
fi
# The hybrid default model, and a dense one.
for gguf in assets/tiny-qwen35-q8_0 tests/golden/t3-q-Q4_K_M; do
  name=$(basename "$gguf")
  model=$work/$name.qbin
  stage "$name: compile" "$bin/qcc" compile "$root/$gguf.gguf" --target=cpu,cuda -q -o "$model"
  stage "$name: check values" "$bin/qrun" check "$model" --device=cuda
  [ -n "$checker" ] || continue
  stage "$name: the long prompt is more than 40 tokens" takes_prefill "$model"
  for tool in memcheck racecheck synccheck; do
    for prompt in "My name is" "$long"; do
      stage "$name: compute-sanitizer $tool, prompt of ${#prompt} characters" "$checker" --tool "$tool" \
        --error-exitcode 1 "$bin/qrun" "$model" --device=cuda --raw -n 8 --temp 0 -p "$prompt"
    done
  done
done

speed_devices=cuda
if vulkan=$(usable vulkan); then
  speed_devices+=,${vulkan%%: *}
else
  skipped+=("speed on Vulkan: no GPU there")
fi
speed() {
  python3 "$root/benchmarks/model/gpu_speed.py" --bin "$bin" --device "$speed_devices" \
    --gpu-profiles "$profiles" "${speed_options[@]}" |
    tee "$work/speed"
}
stage "speed on $speed_devices" speed
case " ${speed_options[*]} " in *" --no-bounds "*) skipped+=("bounds of speed") ;; esac
case " ${speed_options[*]} " in *" --llama-bench="*) ;; *) skipped+=("speed beside llama.cpp: no --llama-bench") ;; esac
while IFS= read -r line; do skipped+=("bound of speed, ${line#not judged: }"); done < <(grep '^not judged: ' "$work/speed")

if [ ${#skipped[@]} -ne 0 ]; then
  printf '\nskipped:\n'
  printf '  %s\n' "${skipped[@]}"
fi
if [ ${#failed[@]} -ne 0 ]; then
  printf '\nfailed:\n'
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
if [ ${#skipped[@]} -eq 0 ]; then
  printf '\nall passed\n'
else
  printf '\nall that ran passed; skipped: %s\n' "$(printf '%s; ' "${skipped[@]}" | sed 's/; $//')"
fi
