#!/usr/bin/env bash
# Builds libebbtide and installs it below PREFIX: shared and static library, headers, pkg-config and
# CMake packages. PROFILE is cargo's, usually release. It needs no more than Rust and a C compiler;
# `cargo cinstall -p ebbtide-capi` (cargo-c) installs the same.
#
#     crates/capi/install.sh PREFIX [PROFILE]
set -euo pipefail
prefix=$(realpath -m "${1:?"expected a PREFIX to install below"}")
profile=${2:-release}
cd "$(dirname "$0")/../.."

id=$(cargo pkgid --locked -p ebbtide-capi)
version=${id##*[#@]}
# While the version is 0.x, a minor version may change the interface.
so=${version%.*}
built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
cargo rustc --locked --profile "$profile" -p ebbtide-capi --crate-type cdylib -- \
    -C link-arg=-Wl,-soname,"libebbtide.so.$so"
cargo rustc --locked --profile "$profile" -p ebbtide-capi --crate-type staticlib

lib=$prefix/lib
cmake=$prefix/share/cmake/Ebbtide
mkdir -p "$prefix/include" "$lib/pkgconfig" "$cmake"
install -m 644 crates/capi/include/* "$prefix/include/"
install -m 644 crates/capi/cmake/*.cmake "$cmake/"
install -m 755 "$built/libebbtide_capi.so" "$lib/libebbtide.so.$version"
install -m 644 "$built/libebbtide_capi.a" "$lib/libebbtide.a"
ln -sf "libebbtide.so.$version" "$lib/libebbtide.so.$so"
ln -sf "libebbtide.so.$version" "$lib/libebbtide.so"

cat >"$lib/pkgconfig/ebbtide.pc" <<EOF
prefix=\${pcfiledir}/../..
exec_prefix=\${prefix}
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: ebbtide
Description: Flash as memory
Version: $version
Libs: -L\${libdir} -lebbtide
Cflags: -I\${includedir}
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
EOF
echo "libebbtide $version is in $lib: the loader finds it after ldconfig as root, or by LD_LIBRARY_PATH=$lib"
