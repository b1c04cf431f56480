#!/usr/bin/env bash
# Compares a map of strings in a mapped region with the same map under paging. Both have the same
# DRAM and one core, and the windows alternate. Needs the right to make a memory cgroup.
#
#     crates/capi/examples/containers/run.sh FOLDER [KEYS [ROUNDS [SECONDS]]]
set -euo pipefail
folder=$(realpath "${1:?"expected a FOLDER for the data"}")
keys=${2:-1000000} rounds=${3:-5} seconds=${4:-2}
cd "$(dirname "$0")/../../../.."
# The data are about 560 bytes an entry. DRAM is 3% of it.
dram=$((keys * 560 * 3 / 100))
cargo build --release --locked -p ebbtide-capi
built=${CARGO_TARGET_DIR:-target}/release
c++ -std=c++17 -O2 -I crates/capi/include -o "$folder/containers" \
    crates/capi/examples/containers/containers.cpp "$built/libebbtide_capi.a" -lgcc_s -lpthread -ldl -lm

group=/sys/fs/cgroup/memory/ebbtide-containers-$$ limit=memory.limit_in_bytes
[[ -d /sys/fs/cgroup/memory ]] || group=/sys/fs/cgroup/ebbtide-containers-$$ limit=memory.max
cpu=$(taskset -cp $$ | sed 's/.*[ ,-]//')

# Starts a program of both modes, in $1 and $2, and waits until its data are there.
start() {
    coproc region { exec taskset -c "$cpu" "$1" region "$folder/region.data" $dram "$keys"; }
    # The kernel keeps two coprocesses apart only by their descriptors.
    exec {to_region}>&"${region[1]}" {from_region}<&"${region[0]}"
    eval "exec ${region[1]}>&- ${region[0]}<&-"
    region_id=$!
    mkfifo "$folder/to" "$folder/from"
    (
        mkdir "$group"
        echo $dram >"$group/$limit"
        echo $BASHPID >"$group/cgroup.procs"
        exec taskset -c "$cpu" "$1" paging "$folder/paging.data" $dram "$keys"
    ) <"$folder/to" >"$folder/from" &
    paging_id=$!
    exec {to_paging}>"$folder/to" {from_paging}<"$folder/from"
    rm "$folder/to" "$folder/from"
    read -r _ <&"$from_region"
    read -r _ <&"$from_paging"
}

stop() {
    exec {to_region}>&- {to_paging}>&- {from_region}<&- {from_paging}<&-
    wait "$region_id" "$paging_id"
    rmdir "$group"
    rm "$folder/region.data" "$folder/paging.data"
}

# The pages that the program of mode $1 has read so far.
pages_read() {
    local id=$1_id
    awk '/^read_bytes/ { print int($2 / 4096) }' "/proc/${!id}/io"
}

# Runs a window of $2 threads in $1, and sets `rate` to its operations a second and `reads` to the
# pages that an operation has read.
window() {
    local to=to_$1 from=from_$1 before
    before=$(pages_read "$1")
    echo "$2 $seconds" >&"${!to}"
    read -r rate <&"${!from}"
    reads=$(awk -v pages=$(($(pages_read "$1") - before)) -v n="$rate" -v s="$seconds" \
        'BEGIN { printf "%.2f", pages / (n * s) }')
}

# The number of threads with the highest rate.
best() {
    local most=0 threads
    window "$1" 16
    for threads in 4 8 16 32 64; do
        window "$1" $threads
        if ((rate > most)); then most=$rate best=$threads; fi
    done
}

start "$folder/containers"
best region
in_region=$best
best paging
in_paging=$best
for ((round = 0; round < rounds; round++)); do
    window region "$in_region"
    in_regions=$rate read_in_region=$reads
    window paging "$in_paging"
    awk -v a="$in_regions" -v b="$rate" -v r="$read_in_region" -v p="$reads" \
        'BEGIN { printf "%.2f %d %d %s %s\n", a / b, a, b, r, p }'
done | sort -n | awk -v r="$in_region" -v p="$in_paging" '
    { ratio[NR] = $1; line[NR] = $0 }
    END {
        split(line[int((NR + 1) / 2)], m)
        printf "region (%d jobs) %d/s and %.2f reads an operation, ", r, m[2], m[4]
        printf "paging (%d threads) %d/s and %.2f, ", p, m[3], m[5]
        printf "ratio %.2f [%.2f, %.2f]\n", m[1], ratio[1], ratio[NR]
    }'
stop
