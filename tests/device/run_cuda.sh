#!/bin/bash
# Everything that only a machine with an NVIDIA GPU can show: the conformance suite and the goldens on CUDA, the memory
# checker on small models, the floor of a launch (where nvcc is), and speeds beside the device's copy bandwidth; on Vulkan
# too where that has a GPU. Needs a CUDA driver, compute-sanitizer, and either a built tree or the sources and what
# tools/install_deps.sh installs.
#
#   tests/device/run_cuda.sh [OPTION...] [BUILD]     BUILD: a build folder of this tree, default build/release (built if
#                                                    missing), or what make_kit.sh made, where nothing is installed
#     --list                       the names of this machine's stages, and nothing else
#     --only PATTERN               stages whose name matches the shell's pattern ('conformance/*'); several are fine
#     --without-sanitizer          go on without compute-sanitizer
#     --no-bounds                  speeds are printed and not judged
#     --llama-bench PATH[,PATH]    measure llama.cpp beside ours (benchmarks/model/gpu_speed.py)
#     --profile-stages DIR         the time of each kernel of what is measured, as files there
#
# Exit code: 0 only if every stage passed. A machine without a CUDA device, or without compute-sanitizer unless that is
# waived, is an error here, not a skip. What was skipped is listed at the end, cases of a stage by their reasons.
set -uo pipefail
root=$(cd -- "$(dirname -- "$0")/../.." && pwd)
build=$root/build/release
sanitize=yes
list=no
only=()
speed_options=()
while [ $# -ne 0 ]; do
  case $1 in
    --list) list=yes ;;
    --only=*) only+=("${1#*=}") ;;
    --only)
      only+=("${2:?$1 needs a pattern}")
      shift
      ;;
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
stages=0
wanted() {  # STAGE
  local pattern
  for pattern in "${only[@]}"; do
    # shellcheck disable=SC2053  # a pattern
    [[ $1 == $pattern ]] && return 0
  done
  [ ${#only[@]} -eq 0 ]
}
stage() {  # NAME COMMAND...
  wanted "$1" || return 0
  stages=$((stages + 1))
  if [ "$list" = yes ]; then
    echo "$1"
    return 0
  fi
  printf '\n=== %s\n' "$1"
  now=$1
  shift
  "$@" || failed+=("$now")
}
# reported COMMAND...: of a stage; notes what its output says was skipped, gtest's cases by their reasons.
reported() {
  local status line
  "$@" 2>&1 | tee "$work/said"
  status=${PIPESTATUS[0]}
  while IFS= read -r line; do skipped+=("$now: $line"); done < <(awk '
    /: Skipped$/ { getline why; sub(/ \[Q[0-9]+\].*/, "", why); ++cases[why] }
    sub(/^skip /, "")
    END { for (why in cases) print cases[why] " cases: " why }' "$work/said")
  return "$status"
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
if ! cuda=$(usable cuda); then
  echo "run_cuda.sh: no usable CUDA device:" >&2
  echo "$devices" >&2
  exit 1
fi
[ "$list" = yes ] || echo "$cuda"
vulkan=$(usable vulkan) || skipped+=("Vulkan: no GPU there")
# Launches that overlap: only a device shows whether each kernel waits for what it reads.
profiles=(sm80)
if grep -q -E 'compute capability (9|1[0-9])\.' <<< "$cuda"; then
  profiles=(sm90 sm80)
else
  skipped+=("profile sm90: no device of compute capability 9.0")
fi

# conformance KIND TEST SUITE: on every profile that the device runs, also those that no artifact has unless it is asked.
conformance() {
  QCC_TEST_ALL_PROFILES=1 reported "$2" --gtest_filter="On/$3.*/$1_*" || return
  grep -q '^\[  PASSED  \] [1-9]' "$work/said" || { echo "no case ran"; return 1; }
}
goldens() { reported python3 "$root/tests/e2e/test_gpu_models.py" --bin "$bin" --device "$@"; }
for kind in cuda ${vulkan:+vulkan}; do
  for test in "$bin"/device_*_test; do
    # A build folder that a kit was made of has every test twice.
    case $test in */device_all_test) [ ! -x "$bin/device_linear_test" ] || continue ;; esac
    for suite in $("$test" --gtest_list_tests --gtest_filter="*/${kind}_*" | sed -n 's/^On\/\(.*\)\.$/\1/p'); do
      stage "conformance/$kind/$suite" conformance "$kind" "$test" "$suite"
    done
  done
  stage "goldens/$kind" goldens "$kind"
done
case ${profiles[0]} in sm90) stage goldens/cuda/sm90 goldens cuda --profile sm90 ;; esac

# The memory checker sees the kernels that run. A prompt of at most 8 tokens takes a decode bucket; the long one takes a
# prefill bucket, whose kernels are others: attention in blocks, linears on matrix units, many rows of the delta rule.
short="My name is"
long="My name is Edward, and I come to tell the king that all his ships are lost; the winds have driven them upon the \
rocks, and no man of the thousand that set out with us in May has seen the shore again."
checker=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[ "$sanitize" = yes ] || skipped+=("compute-sanitizer")
# compiled GGUF: the artifact of it, for each of $profiles; made once.
compiled() {
  model=$work/$(basename "$1").qbin
  [ -e "$model" ] || "$bin/qcc" compile "$root/$1.gguf" --target=cpu,cuda --gpu-profiles="$(IFS=, && echo "${profiles[*]}")" \
    -q -o "$model"
}
check() {  # GGUF
  compiled "$1" && "$bin/qrun" check "$model" --device=cuda
}
sanitizer() {  # GGUF PROFILE TOOL PROMPT
  local ids
  [ -n "$checker" ] || { echo "compute-sanitizer is not installed; --without-sanitizer goes on without it"; return 1; }
  compiled "$1" || return
  if [ "$4" = "$long" ]; then
    ids=$("$bin/qrun" tokenize "$model" -p "$long") || return
    [ "$(wc -w <<< "$ids")" -gt 40 ] || { echo "the long prompt is not more than 40 tokens"; return 1; }
  fi
  "$checker" --tool "$3" --error-exitcode 1 "$bin/qrun" "$model" --device=cuda --cpu "$2" --raw -n 8 --temp 0 -p "$4"
}
# The hybrid default model, and a dense one.
for gguf in assets/tiny-qwen35-q8_0 tests/golden/t3-q-Q4_K_M; do
  name=$(basename "$gguf")
  stage "check/$name" check "$gguf"
  [ "$sanitize" = yes ] || continue
  for profile in "${profiles[@]}"; do
    for tool in memcheck racecheck synccheck; do
      stage "sanitizer/$name/$profile/$tool/short" sanitizer "$gguf" "$profile" "$tool" "$short"
      stage "sanitizer/$name/$profile/$tool/long" sanitizer "$gguf" "$profile" "$tool" "$long"
    done
  done
done

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
floor() { "$nvcc" -O2 -arch=native -o "$work/floor" "$root/benchmarks/micro/cuda_floor.cu" && "$work/floor"; }
if [ -n "$nvcc" ]; then stage floor floor; else skipped+=("floor: no nvcc"); fi

speed_devices=cuda
[ -z "$vulkan" ] || speed_devices+=,${vulkan%%: *}
speed() {
  python3 "$root/benchmarks/model/gpu_speed.py" --bin "$bin" --device "$speed_devices" \
    --gpu-profiles "$(IFS=, && echo "${profiles[*]}")" "${speed_options[@]}" |
    tee "$work/speed"
  local status=$? line
  case " ${speed_options[*]} " in *" --no-bounds "*) skipped+=("bounds of speed") ;; esac
  case " ${speed_options[*]} " in *" --llama-bench="*) ;; *) skipped+=("speed beside llama.cpp: no --llama-bench") ;; esac
  while IFS= read -r line; do skipped+=("bound of speed, ${line#not judged: }"); done < <(grep '^not judged: ' "$work/speed")
  return "$status"
}
stage speed speed

if [ "$stages" -eq 0 ]; then
  echo "run_cuda.sh: no stage is called ${only[*]}; --list names them" >&2
  exit 2
fi
[ "$list" = no ] || exit 0
[ ${#only[@]} -eq 0 ] || skipped+=("stages other than ${only[*]}")
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
  printf '\nall that ran passed; skipped is what is listed above\n'
fi
