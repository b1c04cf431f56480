#!/usr/bin/env bash
# Checks what `cargo test` leaves out, because it needs a C++ compiler, pkg-config and CMake (Debian:
# g++ pkg-config cmake): installs the library into a temporary folder, builds the examples by pkg-config
# and by CMake, and runs the tests in C and C++, also under AddressSanitizer and
# UndefinedBehaviorSanitizer. With --cargo-c it is cargo-c that installs the library (`cargo install
# cargo-c --locked`), and `install.sh` must give the same.
#
#     crates/capi/check.sh [--cargo-c] [PROFILE]
set -euo pipefail
cargo_c=
if [[ ${1:-} == --cargo-c ]]; then
    cargo_c=yes
    shift
fi
profile=${1:-release}
cd "$(dirname "$0")/../.."
capi=$PWD/crates/capi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(realpath "$(mktemp -d -p "${CI_DATA_DIR:-.}")")
trap 'rm -rf "$work"' EXIT

# All of an installation that does not depend on where it is: files and links, the names in the
# libraries, and the packages.
contents() {
    cd "$1"
    find . ! -type d -printf '%P %M %l\n' | sort
    cat include/* share/cmake/Ebbtide/* lib/pkgconfig/ebbtide.pc | grep -v '^prefix='
    readelf -dW lib/libebbtide.so | grep -E 'SONAME|NEEDED'
    nm -D --defined-only lib/libebbtide.so | cut -d ' ' -f 2-
    nm -g --defined-only lib/libebbtide.a | grep -o ' . ebbtide_.*' | sort
}

"$capi/install.sh" "$work/prefix" "$profile"
prefix=()
if [[ $cargo_c ]]; then
    cargo cinstall --locked --profile "$profile" -p ebbtide-capi --prefix /usr/local \
        --libdir lib --destdir "$work/root"
    diff <(contents "$work/prefix") <(contents "$work/root/usr/local")
    # Where Debian's programs look for libraries, which cargo-c takes by itself if dpkg-dev is there.
    rm -r "$work/prefix"
    cargo cinstall --locked --profile "$profile" -p ebbtide-capi --prefix "$work/prefix"
    # cargo-c writes the prefix down.
    prefix=(--define-variable=prefix="$work/moved")
fi
# Packages are found wherever they were moved to.
mv "$work/prefix" "$work/moved"
lib=$(dirname "$(find "$work/moved" -name libebbtide.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
readelf -d "$lib/libebbtide.so" | grep -q 'SONAME.*libebbtide\.so\.0\.1'
read -ra shared <<<"$(pkg-config "${prefix[@]}" --cflags --libs ebbtide) -lpthread"
warnings=(-Wall -Wextra -Wpedantic -Werror -g)

# Runs a program with a new store. It says what it has done.
run() {
    rm -f "$work/store"
    timeout 600 "$1" "$work/store" "${@:2}"
}

c=(bad_input device_errors maps sharing threads transactions typed_maps)
cpp=(exceptions region views)
for source in examples/{visits,jobs,words} "${c[@]/#/tests/c/}" tests/c/leaks; do
    cc -std=gnu11 "${warnings[@]}" -o "$work/${source##*/}" "$capi/$source.c" "${shared[@]}"
done
for source in examples/orders "${cpp[@]/#/tests/cpp/}"; do
    c++ -std=c++17 "${warnings[@]}" -o "$work/${source##*/}" "$capi/$source.cpp" "${shared[@]}"
done
echo '#include <ebbtide.h>' | c++ -std=c++11 "${warnings[@]}" -fsyntax-only -I "$work/moved/include" -x c++ -
for program in visits jobs "${c[@]}" orders "${cpp[@]}"; do
    run "$work/$program"
done
run "$work/leaks" 100000 300

cmake -S "$capi/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/cmake.log" ||
    { cat "$work/cmake.log" && false; }
cmake --build "$work/cmake" >"$work/cmake.log" || { cat "$work/cmake.log" && false; }
run "$work/cmake/visits"
run "$work/cmake/orders"
for service in dram flash; do
    c++ -std=c++17 "${warnings[@]}" -O2 -o "$work/$service" "$capi/examples/service/$service.cpp" \
        "${shared[@]}"
done
"$capi/examples/service/check.sh" "$work/dram" "$work/flash" "$work/service"
for words in words cmake/words; do
    said=$(run "$work/$words" ebb tide ebb)
    [[ $said == $'ebb 2\ntide 1' ]]
done

# The engine tells the sanitizer of every switch of stacks, so this library links only with it.
cargo rustc --locked --profile dev -p ebbtide-capi --features sanitizer --crate-type staticlib
cp "$target/debug/libebbtide_capi.a" "$work/libsanitized.a"
sanitized=(-fsanitize=address,undefined -fno-sanitize-recover=undefined -I "$capi/include")
library=("$work/libsanitized.a" -lgcc_s -lpthread -ldl -lm)
for source in examples/visits "${c[@]/#/tests/c/}"; do
    cc -std=gnu11 "${warnings[@]}" "${sanitized[@]}" -o "$work/sanitized" "$capi/$source.c" \
        "${library[@]}"
    run "$work/sanitized"
done
for source in examples/orders tests/cpp/{exceptions,views}; do
    c++ -std=c++17 "${warnings[@]}" "${sanitized[@]}" -o "$work/sanitized" "$capi/$source.cpp" \
        "${library[@]}"
    run "$work/sanitized"
done
echo "the C interface is in order"
