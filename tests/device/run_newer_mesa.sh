#!/bin/bash
# What Debian 12's lavapipe and SPIRV-Tools cannot judge, cooperative matrices, on those of Debian 13: the programs of a
# built tree run in a Debian 13 root with Mesa from its backports. Needs root, debootstrap and a Debian mirror.
#
#   tests/device/run_newer_mesa.sh [BUILD] [ROOT]     default: build/release build/debian13 (made if missing, 900 MB)
#
# Exit code: 0 only if every stage passed. A driver without cooperative matrices is an error here, not a skip.
set -euo pipefail
source=$(cd -- "$(dirname -- "$0")/../.." && pwd)
build=$(realpath "${1:-$source/build/release}")
root=${2:-$source/build/debian13}
mirror=http://deb.debian.org/debian

if [ ! -e "$root/ready" ]; then
  debootstrap --variant=minbase --include=ca-certificates trixie "$root" $mirror
  echo "deb $mirror trixie-backports main" > "$root/etc/apt/sources.list.d/backports.list"
  chroot "$root" apt-get update -q
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -q --no-install-recommends -t trixie-backports \
    mesa-vulkan-drivers libvulkan1
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -q --no-install-recommends vulkan-validationlayers
  touch "$root/ready"
fi
root=$(realpath "$root")
# Beside the root's own libraries those of this machine that it lacks: MLIR, LLVM, Abseil.
mkdir -p "$root/compat" "$root$build" "$root$source" "$root/scratch" "$root/proc"
for program in "$build"/bin/{qcc,qrun,device_linear_test,device_engine_test}; do
  ldd "$program" | awk '$3 ~ /^\// {print $3}'
done | sort -u | while read -r library; do
  [ -e "$root$library" ] || cp -Lu "$library" "$root/compat/"
done
work=$(mktemp -d)
trap 'umount "$root$build" "$root$source" "$root/scratch" "$root/proc" 2>/dev/null || true; rm -rf "$work"' EXIT
mount --bind "$source" "$root$source"
mount --bind "$build" "$root$build"
mount --bind "$work" "$root/scratch"
mount -t proc proc "$root/proc"
inside() {
  chroot "$root" /usr/bin/env LD_LIBRARY_PATH=/compat HOME=/scratch QCC_TEST_ALL_PROFILES=1 \
    VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json "$@"
}

inside "$build/bin/qrun" devices | tee "$work/devices"
grep -q '^vulkan:0: .*int8 matrices of 8x8x8' "$work/devices" || { echo "no cooperative matrices here" >&2; exit 1; }

echo "=== conformance of the linear kernels"
inside "$build/bin/device_linear_test" --gtest_filter='*vulkan_sg8*'

echo "=== the default model: the same bits with and without matrices, validation layers silent"
seq -s ' ' 300 700 > "$work/ids"
for profile in sg8-matrix8 sg8-dot; do
  "$build/bin/qcc" compile "$source/assets/tiny-qwen35-q8_0.gguf" --target=vulkan --gpu-profiles=$profile -q \
    -o "$work/$profile.qbin"
  inside VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation "$build/bin/qrun" logits /scratch/$profile.qbin --device=vulkan \
    --tokens /scratch/ids -o /scratch/$profile.bin | tee "$work/messages"
  [ ! -s "$work/messages" ] || { echo "the validation layer speaks" >&2; exit 1; }
done
cmp "$work/sg8-matrix8.bin" "$work/sg8-dot.bin"
echo "all stages passed"
