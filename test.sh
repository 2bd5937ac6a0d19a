#!/bin/bash
# Installs what is missing, builds everything and runs every test. CI runs exactly this.
#   ./test.sh           all stages
#   ./test.sh quick     release build and its tests only
#   ./test.sh compiler-sanitizers   the whole tree, compiler included, under ASan+UBSan and TSan (long)
set -euo pipefail
root=$(cd -- "$(dirname -- "$0")" && pwd)
cd "$root"
mode=${1:-all}
started=$SECONDS
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
stage() { printf '\n=== [%4ds] %s\n' $((SECONDS - started)) "$*"; }

stage "install"
tools/install_deps.sh

stage "source checks: layering, length, formatting, names in Python"
python3 tools/check_source.py
python3 tools/check_functions.py
python3 tools/check_format.py
pyflakes3 benchmarks tests/abi tests/e2e tests/features tools  # a name that is missing, or imported for nothing

# needs_vulkan BIN: install_deps.sh brings lavapipe. If it cannot be used, every test on a Vulkan device would skip, and
# the run would say nothing about that target; likewise the tests of a profile whose features were not found on it.
needs_vulkan() {
  local found
  found=$("$1/qrun" devices)
  echo "$found"
  if ! grep '^vulkan:[0-9]' <<< "$found" | grep -qv 'cannot be used'; then
    echo "test.sh: no Vulkan device can be used here; mesa-vulkan-drivers has one that needs no GPU" >&2
    exit 1
  fi
  if grep 'llvmpipe' <<< "$found" | grep -qv 'subgroups of .*int8 dot products'; then
    echo "test.sh: llvmpipe has subgroups and int8 dot products; qrun did not find them" >&2
    exit 1
  fi
}

if [ "$mode" = compiler-sanitizers ]; then
  # Leaks: LLVM and lld keep arenas until the process ends. User poisoning: LLVM's allocators poison what they hand
  # out later; inlined into our instrumented code they do, inside the uninstrumented libLLVM and libMLIR nothing
  # takes the poison away again, so every mixed use would be reported.
  export ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0
  export TSAN_OPTIONS="suppressions=$root/tests/sanitizers/tsan.supp"
  failed=
  for kind in asan tsan; do
    stage "$kind build and tests"
    cmake --preset $kind >/dev/null
    cmake --build --preset $kind
    needs_vulkan build/$kind/bin
    ctest --test-dir build/$kind --output-on-failure -j2 || failed+=" $kind"  # the other says something all the same
  done
  stage "done in $((SECONDS - started)) s${failed:+, failed:$failed}"
  [ -z "$failed" ]
  exit
fi

stage "release build"
cmake --preset release >/dev/null
cmake --build --preset release

stage "clang-tidy on the lines that changed"
tools/run_tidy.py --most 60 --limit 100

stage "release tests"
needs_vulkan build/release/bin
ctest --test-dir build/release --output-on-failure -j2

if [ "$mode" = quick ]; then exit 0; fi

stage "the README's main job, on each target that is here"
for target in cpu vulkan; do
  written=$(./run.sh --target=$target -p "The state of the union is" -n 16)
  echo "$target: ${written##*$'\n'}"
  if [[ "$written" != *"The state of the union is "?* ]]; then
    echo "test.sh: ./run.sh --target=$target wrote nothing" >&2
    exit 1
  fi
done

# The runtime and the reader read untrusted bytes and run threads: their unit tests, and qrun on artifacts that the
# release qcc made, run under the sanitizers. The compiler's own run: ./test.sh compiler-sanitizers.
for kind in asan-runtime tsan-runtime; do
  stage "$kind build and tests"
  cmake --preset $kind >/dev/null
  cmake --build --preset $kind
  # One command after the other, most of them of one thread: beside the unit tests.
  tests/e2e/sanitized.sh build/$kind/bin/qrun build/release/bin/qcc >build/$kind/sanitized.log 2>&1 &
  TSAN_OPTIONS="suppressions=$root/tests/sanitizers/tsan.supp" \
    ctest --test-dir build/$kind --output-on-failure -j2
  wait $! || { cat build/$kind/sanitized.log; exit 1; }
  tail -1 build/$kind/sanitized.log
done

stage "fuzzers, 5 seconds each, 15 for the compiler's front half"
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target qcc-fuzzers
tests/fuzz/run.sh build/fuzz 5 import=15 plan=15

stage "done in $((SECONDS - started)) s"
