#!/bin/bash
# Makes what travels to a machine with a GPU where nothing of ours is installed and nothing can be fetched: qcc, qrun and
# the conformance tests with the libraries they need but glibc (2.36 or later is there), and tries it in an empty root.
#
#   tests/device/make_kit.sh OUT.tar.xz [BUILD]      BUILD: a build folder of this tree, default build/release
#
# There: tar xf OUT.tar.xz -C /somewhere, and tests/device/run_cuda.sh /somewhere (which wants the sources of this tree
# beside it: scripts, goldens). Debian's LLVM and MLIR would be 260 MB: of their archives, which are installed with their
# headers, the kit takes the members that our programs ask for.
set -euo pipefail
export LC_ALL=C
[ $# -ge 1 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
out=$(realpath -m -- "$1")
root=$(cd -- "$(dirname -- "$0")/../.." && pwd)
build=$(realpath -- "${2:-$root/build/release}")
limit=$((64 << 20))
llvm=$(llvm-config-22 --libdir)
command -v patchelf >/dev/null || apt-get install -y --no-install-recommends patchelf >/dev/null
cmake --build "$build" --target qcc qrun device_all_test

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/kit/bin" "$work/kit/lib"
cd "$work"
# Where the tests look for goldens: run_cuda.sh puts a link there.
echo "$root" > kit/source_dir
for program in qcc qrun device_all_test; do strip -o "kit/bin/$program" "$build/bin/$program"; done

# symbols FILE...: without their versions. `needed` by the files that exist so far; `defined` in one.
symbols() { awk '{print $NF}' | sed 's/@.*//' | sort -u; }
needed() { for file in kit/bin/* kit/lib/*; do [ ! -f "$file" ] || nm -D --undefined-only "$file"; done | symbols; }
defined() { nm -D --defined-only "$1" | symbols; }
# part NAME VERSION ARGUMENT...: the shared library NAME of what its archives have behind the roots, which with `others` are all
# that it exports, but for variables that inline code shares (type ids, statics): there is to be one of each, whoever asks.
part() {
  local name=$1 version=$2
  shift 2
  sed 's/^/-Wl,-u,/' roots > roots.rsp
  nm --defined-only "$llvm/${name%%.*}"*.a 2>/dev/null | awk '$2 ~ /^[Vu]$/ && $3 !~ /^_ZT[VISTC]/ {print $3}' | sort -u > shared
  { echo "$version {global:"; sort -u roots others shared | sed 's/$/;/'; echo 'local: *;};'; } > versions
  clang++-22 -shared -fuse-ld=lld -o "kit/lib/$name" "-Wl,-soname,$name" @roots.rsp -Wl,--start-group "$llvm/${name%%.*}"*.a \
    -Wl,--end-group -Wl,--version-script=versions -Wl,--undefined-version -Wl,--gc-sections -Wl,-O2 -L"$llvm" "$@"
  strip --strip-unneeded "kit/lib/$name"
}
: > others
mlir=$(readlink -f "$llvm/libMLIR.so")
core=$(readlink -f "$llvm/libLLVM-22.so")
comm -12 <(needed) <(defined "$mlir") > roots
part "$(basename "$mlir")" "" -lLLVM-22
# lld has every target begin, of which ours are two: the others' beginnings do nothing.
comm -12 <(needed) <(defined "$core") > all
grep '^LLVMInitialize' all | grep -vE '^LLVMInitialize(X86|NVPTX)' > others
sed 's/.*/void &(void) {}/' others > others.c
clang-22 -c -fPIC -o others.o others.c
grep -vxFf others all > roots
part "$(basename "$core")" LLVM_22.1 others.o -lz -lzstd

# The rest: all that is loaded but glibc.
glibc='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv)\.so'
for file in kit/bin/*; do
  LD_LIBRARY_PATH=$work/kit/lib:$build/lib ldd "$file" | awk '$2 == "=>" {print $1, $3}'
done | sort -u | while read -r name path; do
  [[ $name =~ $glibc || -e kit/lib/$name ]] || { cp -L "$path" kit/lib/ && strip --strip-unneeded "kit/lib/$name"; }
done
# RPATH, not RUNPATH: it holds for the libraries of libraries, too, which so stay as they are.
# shellcheck disable=SC2016  # the loader expands it
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' kit/bin/*

# An empty root but for glibc: a model is made, compiled and run there, and the tests say which they are.
empty=$work/root
mkdir -p "$empty/lib/x86_64-linux-gnu" "$empty/lib64" "$empty/tmp" "$empty/dev" "$empty/proc"
cp -a kit "$empty/kit"
cp -L /lib64/ld-linux-x86-64.so.2 "$empty/lib64/"
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do cp -L "/lib/x86_64-linux-gnu/$name" "$empty/lib/x86_64-linux-gnu/"; done
# With /proc, by which the loader knows where a program lies.
inside() {
  # shellcheck disable=SC2016
  env -i "PATH=$PATH" HOME=/tmp unshare --mount sh -c 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"' "$empty" "$@"
}
inside /kit/bin/qcc synth --arch qwen35 --preset 0.8b --layers 4 --hidden 256 --ffn 512 --vocab 512 --heads 2 --kv-heads 1 \
  --linear-key-heads 2 --linear-value-heads 2 --format q4_k_m --seed 1 -q -o /tmp/m.gguf
inside /kit/bin/qcc compile /tmp/m.gguf --target=cpu,cuda --gpu-profiles=sm90,sm80 -q -o /tmp/m.qbin
inside /kit/bin/qrun check /tmp/m.qbin --device=cpu
inside /kit/bin/device_all_test --gtest_list_tests | grep -q LinearConformance

tar -C kit -cf kit.tar bin lib source_dir
# The programs have much in common, 40 MB apart.
xz -T1 --x86 --lzma2=preset=6,dict=192MiB kit.tar
bytes=$(stat -c %s kit.tar.xz)
[ "$bytes" -le "$limit" ] || { echo "make_kit.sh: $bytes bytes, the limit is $limit" >&2; exit 1; }
mv kit.tar.xz "$out"
echo "$out: $bytes bytes, tried in an empty root"
