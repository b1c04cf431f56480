#!/usr/bin/env bash
# Runs the service in DRAM and on flash, and compares their answers. Each is a program that takes a
# port, and the one on flash also a file.
#
#     crates/capi/examples/service/check.sh DRAM FLASH FILE
set -euo pipefail
here=$(dirname "$0")
lines=$({ diff "$here/dram.cpp" "$here/flash.cpp" || true; } | grep -c '^[<>]')
((lines <= 30)) || { echo "the service moves by $lines lines, not by at most 30"; exit 1; }

# All lines that a client sends: 80 MB of data, where DRAM on flash is 64 MiB.
requests() {
    awk 'BEGIN {
        pad = sprintf("%1000s", ""); gsub(/ /, "x", pad)
        for (n = 0; n < 80000; n++) print "SET user:" n, n pad
        for (n = 0; n < 80000; n += 7) print "GET user:" n
        for (n = 0; n < 80000; n += 3) print "DEL user:" n
        for (n = 0; n < 80000; n += 2) print "GET user:" n
        print "GET"; print "SAY user:1"
    }'
}

# Starts a service and prints its answers to two clients at once, one of which only reads.
answers() {
    coproc service { exec "$@"; }
    local id=$service_PID port client other
    trap 'kill $id' RETURN
    read -r port <&"${service[0]}"
    exec {client}<>"/dev/tcp/127.0.0.1/${port#port }" {other}<>"/dev/tcp/127.0.0.1/${port#port }"
    for _ in {1..2000}; do echo 'GET nobody'; done >&"$other" &
    requests >&"$client" &
    head -n "$(requests | wc -l)" <&"$client"
    head -n 2000 <&"$other" | sort -u
    exec {client}>&- {other}>&-
}

expected=$(answers "$1" 0 | sha256sum)
[[ $(answers "$2" 0 "$3" | sha256sum) == "$expected" ]] || { echo "other answers on flash"; exit 1; }
