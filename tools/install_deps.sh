#!/bin/sh
# Everything that building and testing qcc needs on Debian 12, from Debian's own packages. The last line of packages is
# for running: the loader, lavapipe (Vulkan on the CPU) and the layers that tests keep silent.
set -eu
packages="build-essential g++ pkg-config dpkg-dev file cmake ninja-build git python3 ca-certificates
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools clang-22 clang-tidy-22 lld-22 liblld-22-dev libclang-rt-22-dev
  libzstd-dev zlib1g-dev libabsl-dev libgtest-dev libcli11-dev libedit-dev libncurses-dev nlohmann-json3-dev libpcre2-dev
  libflatbuffers-dev flatbuffers-compiler libxxhash-dev clang-format pyflakes3 valgrind
  libvulkan-dev spirv-tools libshaderc-dev glslang-dev
  libvulkan1 mesa-vulkan-drivers vulkan-validationlayers"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q >&2
# shellcheck disable=SC2086
$as_root apt-get install -y -q --no-install-recommends $missing >&2
