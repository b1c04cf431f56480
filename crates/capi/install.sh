#!/usr/bin/env bash
# Builds libebbtide and installs it below PREFIX: shared and static library, headers, pkg-config and
# CMake packages. PROFILE is cargo's, usually release.
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

mkdir -p "$prefix"/include "$prefix"/lib/pkgconfig "$prefix"/lib/cmake/Ebbtide
install -m 644 crates/capi/include/ebbtide.h crates/capi/include/ebbtide.hpp "$prefix/include/"
install -m 755 "$built/libebbtide_capi.so" "$prefix/lib/libebbtide.so.$version"
install -m 644 "$built/libebbtide_capi.a" "$prefix/lib/libebbtide.a"
ln -sf "libebbtide.so.$version" "$prefix/lib/libebbtide.so.$so"
ln -sf "libebbtide.so.$so" "$prefix/lib/libebbtide.so"

cat >"$prefix/lib/pkgconfig/ebbtide.pc" <<EOF
prefix=\${pcfiledir}/../..
Name: ebbtide
Description: Flash as memory
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lebbtide
Libs.private: -lgcc_s -lpthread -ldl -lm
EOF
cat >"$prefix/lib/cmake/Ebbtide/EbbtideConfig.cmake" <<'EOF'
get_filename_component(_ebbtide_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Ebbtide::ebbtide)
  add_library(Ebbtide::ebbtide SHARED IMPORTED)
  set_target_properties(Ebbtide::ebbtide PROPERTIES
    IMPORTED_LOCATION "${_ebbtide_prefix}/lib/libebbtide.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_ebbtide_prefix}/include")
  add_library(Ebbtide::static STATIC IMPORTED)
  set_target_properties(Ebbtide::static PROPERTIES
    IMPORTED_LOCATION "${_ebbtide_prefix}/lib/libebbtide.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ebbtide_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;pthread;dl;m")
endif()
EOF
cat >"$prefix/lib/cmake/Ebbtide/EbbtideConfigVersion.cmake" <<EOF
set(PACKAGE_VERSION $version)
string(FIND "\${PACKAGE_FIND_VERSION}." "$so." _ebbtide_at)
if(_ebbtide_at EQUAL 0 AND NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
EOF
echo "libebbtide $version is in $prefix"
