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

// What may throw is no callback. From C++17 on, that is a part of a function's type, and the compiler
// refuses a function without `noexcept`.
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
  // Somebody else uses the store.
  EBBTIDE_BUSY = 3,
  // The handle is closed, or was never open.
  EBBTIDE_CLOSED = 4,
  // The handle belongs to the process that this one was forked from.
  EBBTIDE_FORKED = 5,
  // The call was made in the wrong place: inside a job, or with the memory of another job.
  EBBTIDE_MISPLACED = 6,
  // The transaction that the call is part of cannot go on as it is. Its body has to return, and
  // may be called again.
  EBBTIDE_AGAIN = 7,
  // The body of the transaction did not return 0, so nothing of the transaction took place.
  EBBTIDE_ABANDONED = 8,
  // The map has no room for another key.
  EBBTIDE_FULL = 9,
} EbbtideCode;

// An address space on flash behind a DRAM cache, with cores that run jobs. Any thread may use it.
typedef struct EbbtideEngine EbbtideEngine;

// The address space of an engine, for the job that was given it, until that job returns.
typedef struct EbbtideMemory EbbtideMemory;

// A job's result, once it is there.
typedef struct EbbtideTicket EbbtideTicket;

// A store that is made. A field of zeros stands for the usual: only `size` and `bytes` have to be set.
typedef struct {
  // `sizeof(EbbtideNewStore)`.
  size_t size;
  // Size of the address space in bytes. The file takes half as much again for spare pages, and the
  // log, all reserved at once. Of the DRAM budget a page takes 6.5 bytes: 1.6 GiB for 1 TiB. A store
  // does not grow.
  uint64_t bytes;
  // Size of the log in bytes. A store with a log survives crashes. One without is memory expansion:
  // what it holds is gone when the engine is closed.
  uint64_t log_bytes;
  // If not 0, whatever the file holds is overwritten. If 0, only a store without a log is, and nothing
  // that is not a store.
  uint32_t force;
} EbbtideNewStore;

// How an engine is set up. A field of zeros stands for the usual: only `size` and `dram_bytes` have to
// be set.
typedef struct {
  // `sizeof(EbbtideOptions)`.
  size_t size;
  // The DRAM budget in bytes, which covers everything: cache, page states, stacks, buffers.
  uint64_t dram_bytes;
  // Kernel threads that run jobs; usually 1.
  uint32_t cores;
  // User-level threads of each of them; usually as many as suit the budget.
  uint32_t threads;
  // Stack of a job in bytes; usually 64 KiB.
  uint64_t stack_bytes;
  // When a transaction is acknowledged: "always" (the usual), "every:TIME" or "none". A store without a
  // log takes only "none", or no text.
  const char *durability;
} EbbtideOptions;

// What a job or the body of a transaction does. It runs on a small stack (`stack_bytes`), and its
// calls with `memory` may let other jobs run on the same kernel thread. It must return: nothing may be
// thrown, jumped or cancelled out of it. In C++17 and later it is `noexcept`, and one that throws all
// the same ends the process, as every function that is `noexcept` does.
typedef int32_t (*EbbtideWork)(EbbtideMemory *memory, void *argument) EBBTIDE_NOEXCEPT;

// What an engine has counted since it was opened.
typedef struct {
  // `sizeof(EbbtideCounters)`, set by the caller.
  size_t size;
  // Accesses to memory.
  uint64_t accesses;
  // Accesses that found their page in DRAM.
  uint64_t hits;
  // Accesses that started a read from flash.
  uint64_t misses;
  // Accesses that waited for a read that others had started.
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

// A hash table from words to values of one size, of fixed capacity. It is a place and two sizes: all
// jobs may copy and share it, and it stays good as long as its store.
typedef struct {
  // Where it begins.
  uint64_t base;
  // How many entries fit.
  uint64_t capacity;
  // Size of a value in bytes: a multiple of 8 up to 64.
  uint64_t value_bytes;
} EbbtideMap;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What the last call of this thread that failed says of it, in one line. Valid until the next call of
// this thread that fails. In a job, read it before the next call with the job's memory: other jobs
// may run during that.
const char *ebbtide_error(void);

// The version of the library, such as "0.1.0".
const char *ebbtide_version(void);

// Makes a store in a file, and starts an engine over it.
//
// `path` is a string, `store` and `options` point to structures of the sizes they say, and `out` can
// be written.
EbbtideCode ebbtide_create(const char *path,
                           const EbbtideNewStore *store,
                           const EbbtideOptions *options,
                           EbbtideEngine **out);

// Opens the store in a file, recovers what a crash has left of it, and starts an engine over it.
//
// `path` is a string, `options` points to a structure of the size it says, and `out` can be written.
EbbtideCode ebbtide_open(const char *path,
                         const EbbtideOptions *options,
                         EbbtideEngine **out);

// Submits a job. Waits while too many are queued. Any thread may submit, but not from inside a job.
//
// The ticket is for the job's result, which is there when all transactions of the job may be
// acknowledged under the engine's durability. Without `ticket` (null) nobody learns of the result.
//
// `work` may be called with `argument`, by another thread, until it has returned; `ticket` is null or
// can be written.
EbbtideCode ebbtide_submit(const EbbtideEngine *engine,
                           EbbtideWork work,
                           void *argument,
                           EbbtideTicket **ticket);

// Waits for a job and gives what it returned, if `result` is not null. The ticket is closed
// afterwards, whatever the code, unless the call is misplaced.
//
// `result` is null or can be written.
EbbtideCode ebbtide_wait(EbbtideTicket *ticket, int32_t *result);

// Closes a ticket without waiting. The job runs all the same.
EbbtideCode ebbtide_forget(EbbtideTicket *ticket);

// Lets all jobs end, makes what is committed durable, and closes the engine. Tickets stay open.
EbbtideCode ebbtide_close(EbbtideEngine *engine);

// Reads an engine's counters into `*counters`, as far as its size goes.
//
// `counters` is null or points to as many bytes as its size says.
EbbtideCode ebbtide_counters(const EbbtideEngine *engine, EbbtideCounters *counters);

// The range of `bytes` bytes with this name, which is made of zeros if there is none. Names are kept in
// the first page of the address space: a program that uses them has its data in such ranges and in
// maps alone.
//
// `name` is a string, and `at` is null or can be written.
EbbtideCode ebbtide_range(EbbtideMemory *memory,
                          const char *name,
                          uint64_t bytes,
                          uint64_t *at);

// The map with this name, which is made empty, for `capacity` entries with values of `value_bytes`
// bytes, if there is none. `value_bytes` is a multiple of 8 up to 64.
//
// `name` is a string, and `map` is null or can be written.
EbbtideCode ebbtide_map(EbbtideMemory *memory,
                        const char *name,
                        uint64_t capacity,
                        uint64_t value_bytes,
                        EbbtideMap *map);

// Looks for `key`. Puts whether it is there into `*found`, and its value into the `map.value_bytes`
// bytes at `value` if it is.
//
// `found` is null or can be written, and so can `value`, with as many bytes.
EbbtideCode ebbtide_map_get(EbbtideMemory *memory,
                            EbbtideMap map,
                            uint64_t key,
                            void *value,
                            bool *found);

// Sets the value of `key` to the `map.value_bytes` bytes at `value`.
//
// `value` is null or has as many bytes.
EbbtideCode ebbtide_map_set(EbbtideMemory *memory, EbbtideMap map, uint64_t key, const void *value);

// Adds `delta` to the value of `key`, which counts as 0 if it is not there, in one atomic step. Puts
// the sum into `*sum`, if `sum` is not null. It wraps around. The values of the map have 8 bytes.
//
// `sum` is null or can be written.
EbbtideCode ebbtide_map_add(EbbtideMemory *memory,
                            EbbtideMap map,
                            uint64_t key,
                            uint64_t delta,
                            uint64_t *sum);

// Removes `key`. Puts whether it was there into `*found`, if `found` is not null.
//
// `found` is null or can be written.
EbbtideCode ebbtide_map_remove(EbbtideMemory *memory, EbbtideMap map, uint64_t key, bool *found);

// The number of entries; exact while no job adds or removes any.
//
// `entries` is null or can be written.
EbbtideCode ebbtide_map_count(EbbtideMemory *memory, EbbtideMap map, uint64_t *entries);

// Size of the address space in bytes.
//
// `bytes` is null or can be written.
EbbtideCode ebbtide_size(EbbtideMemory *memory, uint64_t *bytes);

// Loads the word of 8 bytes at `at`, a multiple of 8.
//
// `value` is null or can be written.
EbbtideCode ebbtide_load(EbbtideMemory *memory, uint64_t at, uint64_t *value);

// Stores `value` in the word at `at`, a multiple of 8.
EbbtideCode ebbtide_store(EbbtideMemory *memory, uint64_t at, uint64_t value);

// Stores `desired` in the word at `at` if that word is `*expected`, in one atomic step. Puts the word
// that was found into `*expected`, and whether it was exchanged into `*exchanged`.
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

// Copies `bytes` bytes from `from` to address `at`. The range may begin anywhere and span any number
// of pages.
//
// `from` has as many bytes.
EbbtideCode ebbtide_write(EbbtideMemory *memory,
                          uint64_t at,
                          const uint8_t *from,
                          size_t bytes);

// Lets other jobs run for as long as the word at `at` is `seen` and no job calls `ebbtide_wake` for
// it. May return early: look at the word again.
EbbtideCode ebbtide_wait_on(EbbtideMemory *memory, uint64_t at, uint64_t seen);

// Lets every job go on that waits on the word at `at`.
EbbtideCode ebbtide_wake(EbbtideMemory *memory, uint64_t at);

// Announces that the page of `at` will be needed soon. Never changes what a job computes.
EbbtideCode ebbtide_will_need(EbbtideMemory *memory, uint64_t at);

// Runs `body` as a transaction: what it stores takes effect in one step once it has returned 0, and
// survives a crash as a whole or not at all. If it returns anything else, nothing of it takes place
// (in a store without a log, what was stored stays).
//
// `body` may be called several times, and only its last run counts. A call in it that gives an error
// ends the run: all later ones give `EBBTIDE_AGAIN`, and the body should return. A transaction in a
// transaction is part of the outer one. Puts the place in the log for `ebbtide_durable` into `*lsn`,
// if `lsn` is not null.
//
// `body` may be called with `argument`; `lsn` is null or can be written.
EbbtideCode ebbtide_transaction(EbbtideMemory *memory,
                                EbbtideWork body,
                                void *argument,
                                uint64_t *lsn);

// Waits until the transaction that gave `lsn`, and with it every earlier one, may be acknowledged under
// the engine's durability. The job keeps its stack meanwhile, and other jobs run.
EbbtideCode ebbtide_durable(EbbtideMemory *memory,
                            uint64_t lsn);

// Logs what the words from `at` on hold now, as a flush of persistent memory: stores outside of
// transactions may survive a crash, and those in this range do once the place in the log is durable.
// Puts that into `*lsn`, if `lsn` is not null. Does nothing inside a transaction.
//
// `lsn` is null or can be written.
EbbtideCode ebbtide_persist(EbbtideMemory *memory,
                            uint64_t at,
                            uint64_t bytes,
                            uint64_t *lsn);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EBBTIDE_H */
