"""The parameters of a design, as typed objects. Made by `tools/make_config.py`."""

from __future__ import annotations

from typing import Literal

from ._section import Root, Section, Size, Table

Attachment = Literal["pcie", "ddr"]
Discipline = Literal["priority", "fifo"]
Fill = Literal["page", "footprint"]
Meets = Literal["equal", "at-least"]
Mode = Literal["extend", "persist"]
PageTables = Literal["flat", "cached"]
PolicyKind = Literal[
    "fifo",
    "random",
    "lru",
    "clock",
    "cflru",
    "srrip-hp",
    "srrip-fp",
    "brrip",
    "drrip",
    "s3-fifo",
    "mini-sim",
]
PrefetcherKind = Literal["none", "next-n-line", "feedback-directed", "best-offset", "leap"]
Preset = Literal["original", "atc23"]
Reset = Literal["strict", "windowed"]
Stores = Literal["fetched", "logged"]
Wakeup = Literal["guessed", "notified"]
WriteBack = Literal["dirty", "all"]


class Parts(Section):
    """Sides of the machine that come from designs other than Config::design."""

    core_side: str | None
    """The design that the core side comes from."""
    memory_side: str | None
    """The design that the memory side comes from."""


class Cores(Section):
    """The cores."""

    count: int
    """Number of cores."""
    frequency_mhz: int
    """Clock frequency."""
    width: int
    """Instructions retired per cycle, at most 8. A wider core would fill its reorder buffer sooner
    than this model lets it compute."""
    rob_entries: int
    """Entries of the reorder buffer. It hides rob_entries / width cycles of a load."""
    store_buffer: int
    """Entries of the store buffer: stores that can be pending while the core goes on. With 0 a core
    waits for each store."""
    miss_registers: int
    """Miss registers of the private cache: lines that can be in flight at a time."""
    prefetch_lines: int
    """How far ahead the stream prefetcher of a core runs, in lines; 0 without one."""
    flush_cycles: int
    """Time to refill the pipeline after a flush."""
    run_ahead_ns: int
    """How far a core may run ahead of the rest of the machine, at most 1,000: beyond that, results
    depend on it."""


class Cache(Section):
    """A cache of lines."""

    size: Size
    """Capacity."""
    ways: int
    """Associativity."""
    latency_cycles: int
    """Latency from request to reply, without the network."""


class Noc(Section):
    """The on-chip network: a mesh of tiles. A tile is a core and a slice of the last-level
    cache."""

    columns: int
    """Tiles in a row."""
    hop_cycles: int
    """Latency of a hop."""
    link_bytes: int
    """Width of a link in bytes per cycle."""


class Tlb(Section):
    """Address translation."""

    l1_entries: int
    """Entries of the first level, which is fully associative."""
    l2_entries: int
    """Entries of the second level."""
    l2_ways: int
    """Associativity of the second level."""
    l2_latency_cycles: int
    """Latency of a hit in the second level."""
    walk_levels: int
    """Page-table entries that a walk fetches one after another. The upper levels are in walk
    caches."""
    page_tables: PageTables
    """Where page tables lie."""


class Dram(Section):
    """DRAM timing."""

    controllers: int
    """Memory controllers. Pages are striped over them."""
    ras_cycles: int
    """Time to open a row."""
    cas_cycles_per_8_bytes: int
    """Time of each 8 bytes of a column."""
    command_cycles: int
    """Time of each command and each reply of a controller."""


class DramCache(Section):
    """The DRAM cache of pages."""

    size: Size
    """Capacity."""
    ways: int
    """Associativity. 0: fully associative."""
    policy: PolicyKind
    """The replacement policy."""
    fill: Fill
    """How much of a page is fetched."""
    mshr: int
    """Entries of the miss status table. In a byte-addressable device, 0 means that a page in flight
    is read again."""
    mshr_ways: int
    """Associativity of the miss status table."""
    tag_bytes: int
    """Size of a tag in bytes."""
    backside_cycles: int
    """Time of each command of a backside controller."""
    backside_queue: int
    """Misses that can wait for a backside controller. When its queue is full, the frontside
    stalls."""
    evict_buffer: int
    """Pages that a controller's evict buffer holds."""


class Device(Section):
    """A byte-addressable device with a cache in its own DRAM."""

    index_ns: int
    """Time to find where a line that is read lies. Requests look up side by side."""
    dram_ns: int
    """Time of a line in a bank of its DRAM."""
    dram_banks: int
    """Banks of its DRAM, over which lines are interleaved. 1: it serves one line after another."""
    dram_bus_ns: int
    """Part of dram_ns that a line takes on the bus. All banks share the bus."""
    pages_take_bus: bool
    """Whether pages between flash and this DRAM use that bus. They move while no line does."""
    dram_queue: int
    """Lines that can wait for its DRAM. When the queue is full, the device accepts no request."""
    mshr_requests: int
    """Requests that a miss status entry can merge. When one is full, the device accepts no
    request."""
    flash_commands: int
    """Flash commands in flight at once. At this number the device accepts no request."""
    switch_after_ns: int | None
    """The least expected wait for flash at which the device tells the core to run another thread.
    By default it never does. Only some core sides then switch (SkyByte, HPCA'25)."""
    prefetches_first: bool
    """Whether prefetches go to flash before the demand read that caused them."""
    fold_addresses: bool
    """Whether address bits 32 and up are combined with bits 31 and up. MQSim_CXL, the simulator of
    the CXL-flash study (ATC'23), does so."""


class Prefetch(Section):
    """Prefetching by a device."""

    policy: PrefetcherKind
    """The prefetcher."""
    preset: Preset
    """The variant of the prefetcher."""
    in_flight: int
    """The most prefetches in flight."""
    degree: int
    """For next-n-line: pages to fetch."""
    offset: int
    """For next-n-line: pages to skip before them."""
    hints: bool
    """Whether pages that the host announces are fetched too."""


class Switch(Section):
    """Switching between user-level threads."""

    threads: int
    """User-level threads per core."""
    cost_ns: int
    """Time of a switch."""
    scheduler: Discipline
    """The scheduler that chooses the next thread."""
    looks_after_jobs: bool
    """Whether a core looks at its pending threads also after a finished job, and not only at a
    miss."""
    arrivals: Wakeup
    """How the scheduler learns that a page has arrived."""
    ripe_after_us: float | None
    """Age of a miss after which its page is assumed to be present, if arrivals are guessed. By
    default, the response time of idle flash."""


class Os(Section):
    """Costs of the operating system."""

    fault_us: int
    """Time of a page fault without I/O."""
    io_us: int
    """Time to start a read through the I/O stack."""
    install_ns: int
    """Time from flash's answer until the page is mapped in DRAM."""
    read_ahead: Size
    """Bytes that a fault on an uncached page of a mapped file reads, with that page. 0: only the
    page."""
    read_ahead_misses: int
    """Faults on uncached pages, less those on cached ones, above which a fault reads its page
    alone."""
    fault_around: Size
    """The aligned block around a faulting page of a mapped file whose cached pages are mapped with
    it."""
    minor_fault_ns: int
    """Time of a fault on a page that is cached and not mapped."""
    free_pages: int
    """Frames that the kernel keeps free. A fault that finds none waits until a page has been
    written."""
    switch_us: int
    """Time of a context switch."""
    shootdown_us: int
    """Time of a broadcast TLB shootdown to shootdown_cores cores. It is proportional to the
    cores."""
    shootdown_cores: int
    """Number of cores to which shootdown_us applies."""
    interrupt_ns: int
    """Time that another core loses to the interrupt of such a broadcast."""
    shootdown_batch: int
    """Pages unmapped per broadcast."""
    threads: int
    """Kernel threads per core."""


class Link(Section):
    """The link between host and flash device."""

    latency_ns: int
    """Latency in one direction."""
    bandwidth_gb_per_s: int
    """Bandwidth of page transfers over one link in each direction."""


class Dataset(Section):
    """The data."""

    size: Size
    """Size of the data. The image of a program takes at most this."""


class Workload(Section):
    """The programs."""

    miss_interval_us: float
    """Execution between two misses of a plain LRU cache of lru_share of the data. The computing of
    programs is calibrated to it."""
    lru_share: float | None
    """Size of that cache, as a share of the data. The default is the share that the design's own
    memory holds. So a sweep of memory sizes does not change what jobs compute."""
    theta: float
    """Zipf skew of the keys."""
    work_us: float | None
    """Total time that a job computes between its accesses, instead of a calibrated time."""


class Mos(Section):
    """HAMS's memory-over-storage. Its cache is [dram_cache], and its link to flash [link]."""

    page: Size
    """The page that moves between flash and the NVDIMM."""
    wanted_first: bool
    """Whether the wanted 4 KiB of an access come first and end its wait. Otherwise, and always in
    persist mode, the access waits for the whole page."""
    attachment: Attachment
    """How flash is attached."""
    mode: Mode
    """What may be in flight at once, and what survives a power cut."""
    lookup_ns: int
    """Time of the lookup in the SSD's mapping table for each command."""
    lock_ns: int
    """Time to hand the NVDIMM from one master to the other. 0 if the host is the only master."""
    ssd_dram: Size
    """Size of the SSD's internal DRAM, which buffers writes. 0: there is none."""
    ssd_dram_gb_per_s: int
    """Bandwidth of the SSD's internal DRAM."""


class Promotion(Section):
    """Promotion of pages from a byte-addressable device to host DRAM (FlatFlash §3.3, §3.4)."""

    size: Size
    """Size of host DRAM for promoted pages."""
    policy: PolicyKind
    """The replacement policy, which chooses the page to demote."""
    write_back: WriteBack
    """Which demoted pages are written to flash."""
    reset: Reset
    """When the counts of an epoch are reset."""
    meets: Meets
    """Which counts promote a page."""
    lower_ratio: float
    """For Algorithm 1: if at most this share of an epoch's accesses went to pages that it promoted,
    the threshold rises."""
    higher_ratio: float
    """For Algorithm 1: at this share or more, a promotion lowers the threshold."""
    threshold_max: int
    """For Algorithm 1: the highest threshold, with which an epoch begins. The threshold is the
    number of accesses that promote a page."""
    epoch: int
    """For Algorithm 1: accesses in an epoch. At its end threshold and shares begin anew."""
    look_aside: int
    """Entries of the promotion look-aside buffer."""
    move_ns: int
    """Time to move a page to DRAM."""
    map_ns: int
    """Time to update the page-table entry and the TLB."""
    posts_stores: bool
    """Whether a store to the device is posted over the link. Otherwise the link is coherent: the
    chip fetches the line and keeps it."""
    posted_write_ns: int
    """Core time of a posted write over the link."""
    persist: Size
    """Size of the persist region at the end of the data. Its pages stay in the SSD, and its stores
    are verified."""
    battery_backed: bool
    """Whether the device's cache survives a power cut."""
    clean_after_us: int
    """Time from a block's first write in the device's cache until the block is cleaned. Cleaning
    reads the block, merges its dirty pages, and writes it. With 0, dirty pages are written one by
    one on eviction."""
    block_pages: int
    """Pages of 4 KiB in a block."""
    mend_batch: int
    """Page-table entries that one interrupt updates after their pages moved in flash."""


class WriteLog(Section):
    """A log of written lines in the DRAM of a byte-addressable device (SkyByte, HPCA'25)."""

    size: Size
    """Size of the log. 0: none."""
    merges: int
    """Pages that compaction merges at a time."""
    stores: Stores
    """The way of a store to a line that the chip does not have."""


class Config(Root):
    """The parameters of a design. Its TOML file has exactly these fields as keys. Assigning to a
    parameter checks the whole; the error names the key."""

    design: str
    """Name of the design, a composition of parts."""
    parts: Parts
    """Sides of the machine that come from other designs."""
    cores: Cores
    """The cores."""
    l1: Cache
    """First-level data cache of each core."""
    llc: Cache
    """Last-level cache of all tiles together."""
    noc: Noc
    """The on-chip network."""
    tlb: Tlb
    """Address translation."""
    dram: Dram
    """DRAM timing."""
    dram_cache: DramCache
    """The DRAM cache of pages."""
    device: Device | None
    """A byte-addressable device with a cache in its own DRAM, for designs that have one."""
    write_log: WriteLog | None
    """The log of written lines in that device's DRAM, for designs that have one."""
    prefetch: Prefetch | None
    """Prefetching by a device, for designs that do it."""
    mos: Mos | None
    """HAMS's memory-over-storage."""
    promotion: Promotion | None
    """Promotion of pages to host DRAM, for designs that do it."""
    switch: Switch
    """Switching between user-level threads."""
    os: Os
    """Costs of the operating system."""
    link: Link
    """The link between host and flash device."""
    flash: Table
    """The flash device: a preset, and keys of the preset that are replaced."""
    dataset: Dataset
    """The data."""
    workload: Workload
    """The programs."""
