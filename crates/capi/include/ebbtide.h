// The C interface of Ebbtide: flash as memory. docs/C.md is the guide.
//
// Made by cbindgen from crates/capi; do not change it by hand.

#ifndef EBBTIDE_H
#define EBBTIDE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// A callback must not throw. From C++17 on, `noexcept` is part of a function's type, and the compiler
// refuses a callback without it.
#if defined(__cplusplus) && __cplusplus >= 201703L
#define EBBTIDE_NOEXCEPT noexcept
#else
#define EBBTIDE_NOEXCEPT
#endif

// The outcome of a call.
typedef enum {
  // The call succeeded.
  EBBTIDE_OK = 0,
  // An argument, an option or a file is at fault.
  EBBTIDE_INPUT = 1,
  // The device or the system failed, or a job did.
  EBBTIDE_FAILED = 2,
  // The store is in use elsewhere.
  EBBTIDE_BUSY = 3,
  // The handle is closed, or was never open.
  EBBTIDE_CLOSED = 4,
  // The handle belongs to the process that this one was forked from.
  EBBTIDE_FORKED = 5,
  // The call was made in the wrong place: inside a job, or with the memory of another job.
  EBBTIDE_MISPLACED = 6,
  // The transaction that the call is part of cannot go on as it is. Its body must return, and
  // may be called again.
  EBBTIDE_AGAIN = 7,
  // The body of a transaction or update did not return 0, so nothing of it took place.
  EBBTIDE_ABANDONED = 8,
  // The map, the store or the region has no room for it.
  EBBTIDE_FULL = 9,
} EbbtideCode;

// An address space on flash behind a DRAM cache, with cores that run jobs. Any thread may use it.
typedef struct EbbtideEngine EbbtideEngine;

// A walk through the keys and values of a map. One thread at a time may use it.
typedef struct EbbtideIterator EbbtideIterator;

// Keys and values of bytes, found by name in a store. Any thread may use it, jobs may not.
typedef struct EbbtideMap EbbtideMap;

// The address space of an engine. Valid for the job that got it, until that job returns.
typedef struct EbbtideMemory EbbtideMemory;

// The new value of an update: see [`ebbtide_new_value`].
typedef struct EbbtideNewValue EbbtideNewValue;

// Bytes of a region that stay in DRAM.
typedef struct EbbtidePinned EbbtidePinned;

// A range of addresses whose pages come from flash. docs/MAPPED.md has the rules for its use.
typedef struct EbbtideRegion EbbtideRegion;

// Maps by name in a file. Any thread may use it, jobs may not. Rust and Python programs open the
// same stores.
typedef struct EbbtideStore EbbtideStore;

// The handle of a job's result.
typedef struct EbbtideTicket EbbtideTicket;

// Bytes that the library owns.
typedef struct {
  // The first byte; null if there is no value.
  const uint8_t *data;
  // Number of bytes.
  size_t size;
} EbbtideBytes;

// A store to create. A field of zeros means the default. Only `size` and `bytes` must be set.
typedef struct {
  // `sizeof(EbbtideNewStore)`.
  size_t size;
  // Size of the address space in bytes. The file also reserves half as much for spare pages, and
  // the log. A page takes 6.5 bytes of the DRAM budget, and 11 with a log: 1.6 or 2.8 GiB for 1
  // TiB. `ebbtide store grow` enlarges a store with a log that is closed.
  uint64_t bytes;
  // Size of the log in bytes. A store with a log survives crashes. A store without a log is
  // memory expansion: its contents are lost when the engine is closed.
  uint64_t log_bytes;
  // If not 0, the file is overwritten. If 0, only a store without a log is overwritten. A store
  // with a log, or a file that is not a store, is refused.
  uint32_t force;
} EbbtideNewStore;

// Options of an engine. A field of zeros means the default. Only `size` and `dram_bytes` must be
// set.
typedef struct {
  // `sizeof(EbbtideOptions)`.
  size_t size;
  // The DRAM budget in bytes. It covers everything: cache, page states, stacks, buffers.
  uint64_t dram_bytes;
  // Kernel threads that run jobs. Default: 1.
  uint32_t cores;
  // User-level threads of each core. Default: as many as suit the budget.
  uint32_t threads;
  // Stack of a job in bytes. Default: 64 KiB.
  uint64_t stack_bytes;
  // When a transaction is acknowledged: "always" (the default), "every:TIME" or "none". A store
  // without a log takes only "none", or null.
  const char *durability;
} EbbtideOptions;

// The function of a job, or the body of a transaction. It runs on a small stack (`stack_bytes`).
// During its calls with `memory`, other jobs may run on the same kernel thread. It must return: it
// must not throw, jump out or be cancelled. In C++17 and later it is `noexcept`, so a function
// that throws ends the process.
typedef int32_t (*EbbtideWork)(EbbtideMemory *memory, void *argument) EBBTIDE_NOEXCEPT;

// Counters of an engine since it was opened.
typedef struct {
  // `sizeof(EbbtideCounters)`, set by the caller.
  size_t size;
  // Accesses to memory.
  uint64_t accesses;
  // Accesses that found their page in DRAM.
  uint64_t hits;
  // Accesses that started a read from flash.
  uint64_t misses;
  // Accesses that waited for a read that another access had started.
  uint64_t hits_under_miss;
  // Pages read from flash.
  uint64_t flash_reads;
  // Pages written to flash.
  uint64_t flash_writes;
  // Reads that failed for good.
  uint64_t read_errors;
  // Writes that failed for good.
  uint64_t write_errors;
  // Jobs that ended.
  uint64_t jobs;
} EbbtideCounters;

// The function of a job that uses a region. In it, a load or store of a page that is not in DRAM
// lets other jobs run on the same kernel thread. It must return: it must not throw, jump out or be
// cancelled. In C++17 and later it is `noexcept`, so a function that throws ends the process.
typedef int32_t (*EbbtideRegionWork)(void *argument) EBBTIDE_NOEXCEPT;

// Options of a store. A field of zeros means the default. Only `size` must be set.
typedef struct {
  // `sizeof(EbbtideStoreOptions)`.
  size_t size;
  // The room for keys and values with their index, in bytes. Default: 1 GiB. An existing store
  // keeps its size.
  uint64_t bytes;
  // The room for the order of all ordered maps, in addition. Default: an eighth of `bytes`.
  uint64_t order_bytes;
  // The DRAM budget in bytes. It covers everything. Default: 64 MiB.
  uint64_t dram_bytes;
  // Kernel threads that run jobs. Default: 1.
  uint32_t cores;
  // If not 0, an existing store is replaced. Other files never are.
  uint32_t replace;
  // When a change returns: "always" (the default), "every:TIME" or "none". Null means the
  // default.
  const char *durability;
} EbbtideStoreOptions;

// A hash table from words to values of one size, of fixed capacity. It consists of an address and
// two sizes. All jobs may copy and share it, and it stays valid as long as its store.
typedef struct {
  // Its address.
  uint64_t base;
  // The most entries.
  uint64_t capacity;
  // Size of a value in bytes: a multiple of 8 up to 64.
  uint64_t value_bytes;
} EbbtideTypedMap;

// The function of an update. `old.data` is null if there is no value. It gives the new value by
// [`ebbtide_new_value`]; without that call the key is removed. If it does not return 0, nothing
// changes. It may be called more than once, and only its last call counts. It runs on another
// thread, on a stack of 64 KiB. Other calls of this library are refused in it.
typedef int32_t (*EbbtideUpdate)(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) EBBTIDE_NOEXCEPT;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Frees a value that `ebbtide_map_get` gave.
//
// `value` is as `ebbtide_map_get` has set it, and was not freed before.
void ebbtide_bytes_free(EbbtideBytes value);

// Returns the error of the last failed call of this thread, in one line. Valid until the next
// failed call of this thread. In a job, read it before the next call with the job's memory,
// because other jobs may run during that call.
const char *ebbtide_error(void);

// Returns the version of the library, such as "0.1.0".
const char *ebbtide_version(void);

// Creates a store in a file, and starts an engine over it.
//
// `path` is a string, `store` and `options` point to structures of the sizes they say, and `out`
// can be written.
EbbtideCode ebbtide_create(const char *path,
                           const EbbtideNewStore *store,
                           const EbbtideOptions *options,
                           EbbtideEngine **out);

// Opens the store in a file, recovers it after a crash, and starts an engine over it.
//
// `path` is a string, `options` points to a structure of the size it says, and `out` can be
// written.
EbbtideCode ebbtide_open(const char *path, const EbbtideOptions *options, EbbtideEngine **out);

// Submits a job. Blocks while too many jobs are queued. Any thread may submit, but not from inside
// a job.
//
// The ticket is for the job's result. The result is there once all transactions of the job may be
// acknowledged under the engine's durability. If `ticket` is null, the result is dropped.
//
// `work` may be called with `argument`, by another thread, until it has returned; `ticket` is null
// or can be written.
EbbtideCode ebbtide_submit(const EbbtideEngine *engine,
                           EbbtideWork work,
                           void *argument,
                           EbbtideTicket **ticket);

// Waits for a job and returns its result in `*result`, if `result` is not null. Afterwards the
// ticket is closed, even if the call fails, unless the call is misplaced.
//
// `result` is null or can be written.
EbbtideCode ebbtide_wait(EbbtideTicket *ticket, int32_t *result);

// Closes a ticket without waiting. The job still runs.
EbbtideCode ebbtide_forget(EbbtideTicket *ticket);

// Waits until all jobs have ended, makes all commits durable, and closes the engine. Tickets stay
// open.
EbbtideCode ebbtide_close(EbbtideEngine *engine);

// Copies an engine's counters into `*counters`, up to the size given there.
//
// `counters` is null or points to as many bytes as its size says.
EbbtideCode ebbtide_counters(const EbbtideEngine *engine, EbbtideCounters *counters);

// Begins a walk through a map. A key that is there all the time comes exactly once.
//
// In an ordered map, keys come in order: from `from` on, if that is not null, and to before `to`,
// if that is not null. In a map without order, both must be null.
//
// `from` and `to` are null or have as many bytes as is said, and `out` can be written.
EbbtideCode ebbtide_map_iterate(const EbbtideMap *map,
                                const void *from,
                                size_t from_bytes,
                                const void *to,
                                size_t to_bytes,
                                EbbtideIterator **out);

// Returns the next key and its value; both `data` are null at the end. They stay valid until the
// next call with this iterator.
//
// `key` and `value` can be written.
EbbtideCode ebbtide_iterator_next(EbbtideIterator *iterator,
                                  EbbtideBytes *key,
                                  EbbtideBytes *value);

// Ends a walk.
EbbtideCode ebbtide_iterator_close(EbbtideIterator *iterator);

// Finds the map with this name, or makes an empty one. An ordered map has its keys in the order of
// their bytes, as `memcmp` compares them.
//
// `name` is a string, and `out` can be written.
EbbtideCode ebbtide_map(const EbbtideStore *store,
                        const char *name,
                        bool ordered,
                        EbbtideMap **out);

// Closes a map. The others of its store stay open.
EbbtideCode ebbtide_map_close(EbbtideMap *map);

// Looks for a key. Sets `*value` to its value, or `value->data` to null if it is not there. The
// caller frees the value by `ebbtide_bytes_free`.
//
// `key` has `key_bytes` bytes, and `value` can be written.
EbbtideCode ebbtide_map_get(const EbbtideMap *map,
                            const void *key,
                            size_t key_bytes,
                            EbbtideBytes *value);

// Stores a value under a key.
//
// `key` and `value` have as many bytes as is said.
EbbtideCode ebbtide_map_set(const EbbtideMap *map,
                            const void *key,
                            size_t key_bytes,
                            const void *value,
                            size_t value_bytes);

// Removes a key. Sets `*found` to whether it was there, if `found` is not null.
//
// `key` has `key_bytes` bytes, and `found` is null or can be written.
EbbtideCode ebbtide_map_remove(const EbbtideMap *map,
                               const void *key,
                               size_t key_bytes,
                               bool *found);

// Returns the number of keys in `*entries`. It is exact while nothing is changed.
//
// `entries` can be written.
EbbtideCode ebbtide_map_count(const EbbtideMap *map, uint64_t *entries);

// Returns the size of the address space in bytes.
//
// `bytes` is null or can be written.
EbbtideCode ebbtide_size(EbbtideMemory *memory, uint64_t *bytes);

// Loads the word of 8 bytes at `at`, a multiple of 8.
//
// `value` is null or can be written.
EbbtideCode ebbtide_load(EbbtideMemory *memory, uint64_t at, uint64_t *value);

// Stores `value` in the word at `at`, a multiple of 8.
EbbtideCode ebbtide_store(EbbtideMemory *memory, uint64_t at, uint64_t value);

// Stores `desired` in the word at `at` if that word is `*expected`, in one atomic step. Sets
// `*expected` to the word found, and `*exchanged` to whether it was exchanged.
//
// `expected` and `exchanged` are null or can be read and written.
EbbtideCode ebbtide_compare_exchange(EbbtideMemory *memory,
                                     uint64_t at,
                                     uint64_t *expected,
                                     uint64_t desired,
                                     bool *exchanged);

// Copies `bytes` bytes from address `at` on into `into`. The range may begin anywhere and span any
// number of pages.
//
// `into` has room for as many bytes.
EbbtideCode ebbtide_read(EbbtideMemory *memory, uint64_t at, uint8_t *into, size_t bytes);

// Copies `bytes` bytes from `from` to address `at`. The range may begin anywhere and span any
// number of pages.
//
// `from` has as many bytes.
EbbtideCode ebbtide_write(EbbtideMemory *memory, uint64_t at, const uint8_t *from, size_t bytes);

// Lets other jobs run while the word at `at` is `seen` and no job calls `ebbtide_wake` for it. May
// return early: check the word again.
EbbtideCode ebbtide_wait_on(EbbtideMemory *memory, uint64_t at, uint64_t seen);

// Makes every job that waits on the word at `at` runnable.
EbbtideCode ebbtide_wake(EbbtideMemory *memory, uint64_t at);

// Announces that the page of `at` will be needed soon. Never changes what a job computes.
EbbtideCode ebbtide_will_need(EbbtideMemory *memory, uint64_t at);

// Makes a region of `bytes` bytes, whose pages lie in the file at `path`. Its contents are zeros
// at first, and are lost when it is closed. The budget of `options` covers everything, page tables
// included. The default stack of a job is 256 KiB, and `durability` must be null.
//
// `path` is a string, `options` points to a structure of the size it says, and `out` can be
// written.
EbbtideCode ebbtide_region_create(const char *path,
                                  uint64_t bytes,
                                  const EbbtideOptions *options,
                                  EbbtideRegion **out);

// Waits until all jobs have ended, and closes the region. Its addresses must not be used any more.
EbbtideCode ebbtide_region_close(EbbtideRegion *region);

// Returns the first address of a region in `*start` and its size in `*bytes`.
//
// `start` and `bytes` can be written.
EbbtideCode ebbtide_region_range(const EbbtideRegion *region, void **start, size_t *bytes);

// Submits a job that uses the region. Blocks while too many jobs are queued. Any thread may
// submit, but not from inside a job. If `ticket` is null, the result is dropped.
//
// `work` may be called with `argument`, by another thread, until it has returned; `ticket` is null
// or can be written.
EbbtideCode ebbtide_region_submit(const EbbtideRegion *region,
                                  EbbtideRegionWork work,
                                  void *argument,
                                  EbbtideTicket **ticket);

// Takes a block of `bytes` bytes, aligned to 16. Returns null if there is no room, or the region
// is closed. Touches no page of the region.
void *ebbtide_region_malloc(const EbbtideRegion *region, size_t bytes);

// As [`ebbtide_region_malloc`], at a multiple of `alignment`, a power of two.
void *ebbtide_region_aligned_alloc(const EbbtideRegion *region, size_t alignment, size_t bytes);

// Makes the block at `at` hold `bytes` bytes, and returns it. Moves it if it must, with its
// contents. If `at` is null, takes a new block. Returns null if there is no room; the block is
// then unchanged.
//
// `at` is null or a block of this region.
void *ebbtide_region_realloc(const EbbtideRegion *region, void *at, size_t bytes);

// Frees a block, or does nothing if `at` is null. Touches no page of the region. The process ends
// with one line if no block in use begins there.
//
// `at` is null or a block of this region, which is not used any more.
EbbtideCode ebbtide_region_free(const EbbtideRegion *region, void *at);

// Announces an access to `at`: a store, or a load if `store` is 0. A page that is not in DRAM is
// brought for less than a plain access costs, and one that is there counts as used.
//
// Other addresses than those of the region are ignored.
EbbtideCode ebbtide_region_touch(const EbbtideRegion *region, const void *at, int32_t store);

// Keeps `bytes` bytes from `at` on in DRAM, for system calls that read them, or also write to them
// if `store` is not 0. Ended by `ebbtide_region_unpin`.
//
// `out` can be written.
EbbtideCode ebbtide_region_pin(const EbbtideRegion *region,
                               const void *at,
                               size_t bytes,
                               int32_t store,
                               EbbtidePinned **out);

// Ends a pin.
EbbtideCode ebbtide_region_unpin(EbbtidePinned *pinned);

// From now on a miss of this job blocks its core, until as many calls of `ebbtide_no_switch_end`.
// Hold it around a lock that other jobs take as well. Does nothing outside of jobs.
void ebbtide_no_switch_begin(void);

// Ends one `ebbtide_no_switch_begin` of this job.
void ebbtide_no_switch_end(void);

// Lets other jobs run before this one goes on: for a loop that waits for another job. Outside of
// jobs, and after `ebbtide_no_switch_begin`, other threads run.
void ebbtide_let_others_run(void);

// Opens the store in a file and recovers it, or creates it.
//
// `path` is a string, `options` points to a structure of the size it says, and `out` can be
// written.
EbbtideCode ebbtide_store_open(const char *path,
                               const EbbtideStoreOptions *options,
                               EbbtideStore **out);

// Waits until all calls with the store have ended, makes all changes durable, and closes it. Its
// maps and iterators are then [`EBBTIDE_CLOSED`](EbbtideCode::EbbtideClosed). They must still be
// closed themselves.
EbbtideCode ebbtide_store_close(EbbtideStore *store);

// Raises the room for keys and values to `bytes` bytes. Other calls wait until then. The store is
// copied to a larger file in the same folder, which needs room for both.
EbbtideCode ebbtide_store_grow(const EbbtideStore *store, uint64_t bytes);

// As `read(2)`, to bytes of a region, which are in DRAM during the call. Moves at most 256 KiB.
// Bytes outside of the region are passed on. A call that waits blocks its core. Returns -1 with
// `errno` on failure; `EINVAL` if `ebbtide_error` has the reason.
//
// As `read`.
ptrdiff_t ebbtide_region_read(const EbbtideRegion *region, int file, void *at, size_t bytes);

// As `write(2)`, from bytes of a region; otherwise as `ebbtide_region_read`.
//
// As `write`.
ptrdiff_t ebbtide_region_write(const EbbtideRegion *region, int file, const void *at, size_t bytes);

// As `recv(2)`, to bytes of a region; otherwise as `ebbtide_region_read`.
//
// As `recv`.
ptrdiff_t ebbtide_region_recv(const EbbtideRegion *region,
                              int socket,
                              void *at,
                              size_t bytes,
                              int flags);

// As `send(2)`, from bytes of a region; otherwise as `ebbtide_region_read`.
//
// As `send`.
ptrdiff_t ebbtide_region_send(const EbbtideRegion *region,
                              int socket,
                              const void *at,
                              size_t bytes,
                              int flags);

// Runs `body` as a transaction. If `body` returns 0, all its stores take effect in one step. They
// survive a crash as a whole or not at all. If it returns anything else, none of them takes
// effect. In a store without a log, they stay.
//
// `body` may be called several times, and only its last run counts. A call in it that returns an
// error ends the run. All later calls then return `EBBTIDE_AGAIN`, and the body should return. A
// transaction inside a transaction is part of the outer one. Returns the place in the log for
// `ebbtide_durable` in `*lsn`, if `lsn` is not null.
//
// `body` may be called with `argument`; `lsn` is null or can be written.
EbbtideCode ebbtide_transaction(EbbtideMemory *memory,
                                EbbtideWork body,
                                void *argument,
                                uint64_t *lsn);

// Waits until the transaction at `lsn` and all earlier ones may be acknowledged under the engine's
// durability. The job keeps its stack, and other jobs run.
EbbtideCode ebbtide_durable(EbbtideMemory *memory, uint64_t lsn);

// Logs the current contents of the words from `at` on, like a flush of persistent memory. Stores
// outside of transactions may or may not survive a crash. Those in this range do once the place in
// the log is durable. Returns that place in `*lsn`, if `lsn` is not null. Does nothing inside a
// transaction.
//
// `lsn` is null or can be written.
EbbtideCode ebbtide_persist(EbbtideMemory *memory, uint64_t at, uint64_t bytes, uint64_t *lsn);

// Finds the range of `bytes` bytes with this name, or makes one of zeros. Names are kept in the
// first page of the address space. A program that uses names must keep all its data in such ranges
// and maps.
//
// `name` is a string, and `at` is null or can be written.
EbbtideCode ebbtide_range(EbbtideMemory *memory, const char *name, uint64_t bytes, uint64_t *at);

// Finds the map with this name, or makes an empty one for `capacity` entries with values of
// `value_bytes` bytes. `value_bytes` is a multiple of 8 up to 64.
//
// `name` is a string, and `map` is null or can be written.
EbbtideCode ebbtide_typed_map(EbbtideMemory *memory,
                              const char *name,
                              uint64_t capacity,
                              uint64_t value_bytes,
                              EbbtideTypedMap *map);

// Looks for `key`. Sets `*found` to whether it is there. If it is, copies its value to the
// `map.value_bytes` bytes at `value`.
//
// `found` is null or can be written, and so can `value`, with as many bytes.
EbbtideCode ebbtide_typed_map_get(EbbtideMemory *memory,
                                  EbbtideTypedMap map,
                                  uint64_t key,
                                  void *value,
                                  bool *found);

// Sets the value of `key` to the `map.value_bytes` bytes at `value`.
//
// `value` is null or has as many bytes.
EbbtideCode ebbtide_typed_map_set(EbbtideMemory *memory,
                                  EbbtideTypedMap map,
                                  uint64_t key,
                                  const void *value);

// Adds `delta` to the value of `key` in one atomic step. A missing key counts as 0. Returns the
// sum in `*sum`, if `sum` is not null. The sum wraps around. The values of the map must have 8
// bytes.
//
// `sum` is null or can be written.
EbbtideCode ebbtide_typed_map_add(EbbtideMemory *memory,
                                  EbbtideTypedMap map,
                                  uint64_t key,
                                  uint64_t delta,
                                  uint64_t *sum);

// Removes `key`. Sets `*found` to whether it was there, if `found` is not null.
//
// `found` is null or can be written.
EbbtideCode ebbtide_typed_map_remove(EbbtideMemory *memory,
                                     EbbtideTypedMap map,
                                     uint64_t key,
                                     bool *found);

// Returns the number of entries. It is exact while no job adds or removes any.
//
// `entries` is null or can be written.
EbbtideCode ebbtide_typed_map_count(EbbtideMemory *memory, EbbtideTypedMap map, uint64_t *entries);

// Replaces the value of a key by the one that `update` gives, as one transaction. No other change
// of the key comes between. Returns [`EBBTIDE_ABANDONED`](EbbtideCode::EbbtideAbandoned) if
// `update` does not return 0.
//
// `key` has `key_bytes` bytes. `update` may be called with `argument`, by another thread, during
// this call.
EbbtideCode ebbtide_map_update(const EbbtideMap *map,
                               const void *key,
                               size_t key_bytes,
                               EbbtideUpdate update,
                               void *argument);

// Sets the new value of an update, and copies its bytes. The last call counts.
//
// `new_value` is the argument of the update, and `value` has `value_bytes` bytes.
EbbtideCode ebbtide_new_value(EbbtideNewValue *new_value, const void *value, size_t value_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EBBTIDE_H */
