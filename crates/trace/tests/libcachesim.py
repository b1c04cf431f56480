"""Counts misses of the shipped traces' pages with libCacheSim, for the table in libcachesim.rs.

    for NAME in perl sort sqlite xz: ebbtide trace convert traces/NAME.ebt NAME.oracleGeneral
    pip install libcachesim==0.3.5
    python3 crates/trace/tests/libcachesim.py
"""

import struct

import libcachesim

RECORD = struct.Struct("<IQIq")
POLICIES = (libcachesim.LRU, libcachesim.FIFO, libcachesim.Clock, libcachesim.S3FIFO)

for name in ("perl", "sort", "sqlite", "xz"):
    with open(f"{name}.oracleGeneral", "rb") as file:
        records = list(RECORD.iter_unpack(file.read()))
    for pages in (64, 256, 1024):
        misses = []
        for policy in POLICIES:
            cache, count = policy(pages), 0
            request = libcachesim.Request()
            request.obj_size = 1
            for seconds, address, _, _ in records:
                request.clock_time = seconds
                request.obj_id = address // 4096
                count += not cache.get(request)
            misses.append(count)
        print(f'    ("{name}", {pages}, {misses}),')
