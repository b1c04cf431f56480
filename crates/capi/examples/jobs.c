// A hundred jobs at once over an address space on flash: `jobs STORE`.
#include <ebbtide.h>
#include <inttypes.h>
#include <stdio.h>

enum { JOBS = 100 };

static int failed(const char *doing) {
    fprintf(stderr, "%s: %s\n", doing, ebbtide_error());
    return 1;
}

// A job: squares the word at an address. Both calls may let other jobs run.
static int32_t square(EbbtideMemory *memory, void *argument) {
    const uint64_t *address = argument;
    uint64_t word;
    EbbtideCode code = ebbtide_load(memory, *address, &word);
    if (code == EBBTIDE_OK) code = ebbtide_store(memory, *address, word * word);
    return (int32_t)code;
}

// A job: sums up the words, and sets them to their numbers.
static int32_t sum(EbbtideMemory *memory, void *argument) {
    uint64_t *total = argument, word;
    for (uint64_t n = 0; n < JOBS; n++) {
        EbbtideCode code = ebbtide_load(memory, n * 4096, &word);
        if (code == EBBTIDE_OK) code = ebbtide_store(memory, n * 4096, n);
        if (code) return (int32_t)code;
        *total += word;
    }
    return 0;
}

static EbbtideCode run(EbbtideEngine *engine, EbbtideWork work, void *argument) {
    EbbtideTicket *ticket;
    EbbtideCode code = ebbtide_submit(engine, work, argument, &ticket);
    int32_t result = 0;
    if (code == EBBTIDE_OK) code = ebbtide_wait(ticket, &result);
    return code ? code : (EbbtideCode)result;
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: jobs STORE\n"), 2;
    EbbtideOptions options = {.size = sizeof options, .dram_bytes = 16 << 20};
    EbbtideNewStore store = {.size = sizeof store, .bytes = 64 << 20};    // without a log
    EbbtideEngine *engine;
    uint64_t addresses[JOBS], total = 0;
    EbbtideTicket *tickets[JOBS];
    if (ebbtide_create(arguments[1], &store, &options, &engine)) return failed("create");
    if (run(engine, sum, &total)) return failed("set");
    for (uint64_t n = 0; n < JOBS; n++) {
        addresses[n] = n * 4096;
        if (ebbtide_submit(engine, square, &addresses[n], &tickets[n])) return failed("submit");
    }
    for (uint64_t n = 0; n < JOBS; n++)
        if (ebbtide_wait(tickets[n], NULL)) return failed("wait");
    if (run(engine, sum, &total)) return failed("sum");
    printf("the sum of squares is %" PRIu64 "\n", total);
    return ebbtide_close(engine) ? failed("close") : 0;
}
