// Counts visits in a map on flash that survives crashes, from two threads.
//
//     cc -o visits visits.c $(pkg-config --cflags --libs ebbtide) -lpthread && ./visits visits.store
#include <ebbtide.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 2, JOBS = 100, PAGES = 500 };

static int failed(const char *doing) {
    fprintf(stderr, "%s: %s\n", doing, ebbtide_error());
    return 1;
}

// A transaction: a visit is counted for its page and for all pages, or for neither.
static int32_t count(EbbtideMemory *memory, void *argument) {
    uint64_t page = *(uint64_t *)argument;
    EbbtideTypedMap visits;
    EbbtideCode code = ebbtide_typed_map(memory, "visits", 10000, sizeof(uint64_t), &visits);
    if (code == EBBTIDE_OK) code = ebbtide_typed_map_add(memory, visits, page, 1, NULL);
    if (code == EBBTIDE_OK) code = ebbtide_typed_map_add(memory, visits, PAGES, 1, NULL);
    return (int32_t)code;
}

// A job: runs on a stack of its own, and others run while it waits for flash.
static int32_t visit(EbbtideMemory *memory, void *argument) {
    return (int32_t)ebbtide_transaction(memory, count, argument, NULL);
}

static int32_t sum(EbbtideMemory *memory, void *argument) {
    uint64_t *totals = argument;
    EbbtideTypedMap visits;
    EbbtideCode code = ebbtide_typed_map(memory, "visits", 10000, sizeof(uint64_t), &visits);
    for (uint64_t page = 0; page <= PAGES && code == EBBTIDE_OK; page++) {
        uint64_t value;
        bool found;
        code = ebbtide_typed_map_get(memory, visits, page, &value, &found);
        if (code == EBBTIDE_OK && found) totals[page == PAGES] += value;
    }
    return (int32_t)code;
}

static void *visitor(void *argument) {
    EbbtideEngine *engine = argument;
    static uint64_t pages[JOBS];
    EbbtideTicket *tickets[JOBS];
    for (uint64_t n = 0; n < JOBS; n++) {
        pages[n] = n * n % PAGES;
        if (ebbtide_submit(engine, visit, &pages[n], &tickets[n]) != EBBTIDE_OK) return "submit";
    }
    for (int n = 0; n < JOBS; n++) {
        int32_t result;
        // The ticket is there when the visit is durable.
        if (ebbtide_wait(tickets[n], &result) != EBBTIDE_OK || result != EBBTIDE_OK) return "wait";
    }
    return NULL;
}

int main(int count, char **arguments) {
    const char *path = count > 1 ? arguments[1] : "visits.store";
    EbbtideOptions options = {.size = sizeof options, .dram_bytes = 4 << 20};
    EbbtideNewStore store = {.size = sizeof store, .bytes = 16 << 20, .log_bytes = 1 << 20};
    EbbtideEngine *engine;
    // Opens the store of an earlier run, or creates one.
    FILE *there = fopen(path, "r");
    EbbtideCode code = there ? ebbtide_open(path, &options, &engine)
                             : ebbtide_create(path, &store, &options, &engine);
    if (there) fclose(there);
    if (code != EBBTIDE_OK) return failed(path);

    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, visitor, engine);
    for (int n = 0; n < THREADS; n++) {
        void *wrong;
        pthread_join(threads[n], &wrong);
        if (wrong) return failed(wrong);
    }

    uint64_t totals[2] = {0, 0};
    EbbtideTicket *ticket;
    int32_t result;
    if (ebbtide_submit(engine, sum, totals, &ticket) != EBBTIDE_OK) return failed("submit");
    if (ebbtide_wait(ticket, &result) != EBBTIDE_OK || result != EBBTIDE_OK) return failed("sum");
    EbbtideCounters counters = {.size = sizeof counters};
    if (ebbtide_counters(engine, &counters) != EBBTIDE_OK) return failed("counters");
    if (ebbtide_close(engine) != EBBTIDE_OK) return failed("close");
    printf("%" PRIu64 " visits of pages, %" PRIu64 " in all, after %" PRIu64 " jobs of this run\n",
           totals[0], totals[1], counters.jobs);
    return totals[0] == totals[1] ? 0 : 1;
}
