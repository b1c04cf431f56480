// Several threads share an engine, and one closes it while the others submit.
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };

static const uint64_t BYTES = 4 << 20;
static EbbtideEngine *engine;

// Adds 1 to words that lie on pages all over the store, under a lock of its own that waits.
static int32_t add(EbbtideMemory *memory, void *argument) {
    uint64_t number = (uint64_t)(uintptr_t)argument;
    for (uint64_t step = 0; step < 8; step++) {
        uint64_t at = (number + step) * 2654435761u % (BYTES / 8) * 8, seen;
        OK(ebbtide_load(memory, at, &seen));
        bool exchanged = false;
        while (!exchanged) OK(ebbtide_compare_exchange(memory, at, &seen, seen + 1, &exchanged));
    }
    return 0;
}

static int32_t sum(EbbtideMemory *memory, void *argument) {
    uint64_t *total = argument;
    static unsigned char bytes[1 << 16];
    for (uint64_t at = 0; at < BYTES; at += sizeof bytes) {
        OK(ebbtide_read(memory, at, bytes, sizeof bytes));
        for (size_t n = 0; n < sizeof bytes; n += 8) {
            uint64_t value;
            memcpy(&value, bytes + n, 8);
            *total += value;
        }
    }
    return 0;
}

static void *adds(void *argument) {
    uintptr_t first = (uintptr_t)argument * ROUNDS;
    EbbtideTicket *tickets[ROUNDS];
    for (uintptr_t n = 0; n < ROUNDS; n++)
        OK(ebbtide_submit(engine, add, (void *)(first + n), &tickets[n]));
    for (int n = 0; n < ROUNDS; n++) OK(ebbtide_wait(tickets[n], NULL));
    return NULL;
}

// One job waits for the other, which wakes it.
static int32_t waits(EbbtideMemory *memory, void *argument) {
    (void)argument;
    uint64_t value = 0;
    while (value == 0) {
        OK(ebbtide_wait_on(memory, 0, 0));
        OK(ebbtide_load(memory, 0, &value));
    }
    return (int32_t)value;
}

static int32_t wakes(EbbtideMemory *memory, void *argument) {
    (void)argument;
    OK(ebbtide_store(memory, 0, 5));
    OK(ebbtide_wake(memory, 0));
    return 0;
}

static int32_t resets(EbbtideMemory *memory, void *argument) {
    (void)argument;
    OK(ebbtide_store(memory, 0, 0));
    return 0;
}

static void *submits_until_closed(void *argument) {
    EbbtideCode code = EBBTIDE_OK;
    while (code == EBBTIDE_OK) code = ebbtide_submit(engine, add, argument, NULL);
    CHECK_CODE(code, EBBTIDE_CLOSED, "engine is closed");
    return NULL;
}

static void run_threads(void *(*work)(void *), bool close_meanwhile) {
    pthread_t threads[THREADS];
    for (uintptr_t n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, (void *)n);
    if (close_meanwhile) OK(ebbtide_close(engine));
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    EbbtideOptions options = options_of(2 << 20);
    options.cores = 2;
    engine = make(arguments[1], BYTES, 0, &options);
    run_threads(adds, false);
    uint64_t total = 0;
    CHECK(run(engine, sum, &total) == 0);
    CHECK(total == (uint64_t)THREADS * ROUNDS * 8);

    CHECK(run(engine, resets, NULL) == 0);
    EbbtideTicket *waiting;
    int32_t result;
    OK(ebbtide_submit(engine, waits, NULL, &waiting));
    CHECK(run(engine, wakes, NULL) == 0);
    OK(ebbtide_wait(waiting, &result));
    CHECK(result == 5);

    run_threads(submits_until_closed, true);
    puts("threads shared the engine");
    return 0;
}
