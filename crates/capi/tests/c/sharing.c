// Transactions that waited run on the memory of their own job.
#include "check.h"

static const uint64_t BYTES = 8 << 20;

enum { SHARERS = 300, TRANSACTIONS = 4 };

// Adds to an entry that all jobs change, and writes enough to fill the log now and then. A transaction
// waits for room, or for the entry's latch, and other jobs run during the wait.
static int32_t add_to_shared(EbbtideMemory *memory, void *argument) {
    static unsigned char bytes[2048];
    uint64_t at = BYTES / 2 + (uint64_t)(uintptr_t)argument * sizeof bytes;
    EbbtideTypedMap shared;
    EbbtideCode code = ebbtide_typed_map(memory, "shared", 100, 8, &shared);
    if (code == EBBTIDE_OK) code = ebbtide_typed_map_add(memory, shared, 1, 1, NULL);
    if (code == EBBTIDE_OK) code = ebbtide_write(memory, at, bytes, sizeof bytes);
    CHECK(code == EBBTIDE_OK || code == EBBTIDE_AGAIN);
    return 0;
}

static int32_t shares(EbbtideMemory *memory, void *argument) {
    for (int n = 0; n < TRANSACTIONS; n++)
        OK(ebbtide_transaction(memory, add_to_shared, argument, NULL));
    return 0;
}

static int32_t shared_of(EbbtideMemory *memory, void *argument) {
    EbbtideTypedMap shared;
    bool found;
    OK(ebbtide_typed_map(memory, "shared", 100, 8, &shared));
    OK(ebbtide_typed_map_get(memory, shared, 1, argument, &found));
    CHECK(found);
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    EbbtideOptions options = options_of(3 << 20);
    EbbtideEngine *engine = make(arguments[1], BYTES, 1 << 20, &options);
    EbbtideTicket *tickets[SHARERS];
    for (uintptr_t n = 0; n < SHARERS; n++)
        OK(ebbtide_submit(engine, shares, (void *)n, &tickets[n]));
    for (int n = 0; n < SHARERS; n++) OK(ebbtide_wait(tickets[n], NULL));
    uint64_t shared = 0;
    CHECK(run(engine, shared_of, &shared) == 0);
    CHECK(shared == SHARERS * TRANSACTIONS);
    OK(ebbtide_close(engine));
    puts("transactions ran after they had waited");
    return 0;
}
