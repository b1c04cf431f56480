// Rounds of submitting, opening and closing leave the resident memory as it was at first.
//
//     leaks STORE SUBMITS OPENS
#include "check.h"
#include <unistd.h>

static const uint64_t BYTES = 1 << 20;

static long resident_kib(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = -1;
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int32_t visit(EbbtideMemory *memory, void *argument) {
    uint64_t at = *(uint64_t *)argument * 4096 % BYTES, value;
    OK(ebbtide_load(memory, at, &value));
    OK(ebbtide_store(memory, at, value + 1));
    // A failure leaves a text behind.
    CHECK_CODE(ebbtide_load(memory, 1, &value), EBBTIDE_INPUT, "multiple of 8");
    return 1;
}

static void open_and_close(const char *path) {
    EbbtideOptions options = options_of(1 << 20);
    EbbtideEngine *engine;
    OK(ebbtide_open(path, &options, &engine));
    OK(ebbtide_close(engine));
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    const char *path = arguments[1];
    uint64_t submits = strtoull(arguments[2], NULL, 10), opens = strtoull(arguments[3], NULL, 10);
    EbbtideOptions options = options_of(1 << 20);
    EbbtideEngine *engine = make(path, BYTES, 0, &options);
    uint64_t n = 0;
    for (; n < submits / 10; n++) CHECK(run(engine, visit, &n) == 1);
    long before = resident_kib();
    for (; n < submits; n++) CHECK(run(engine, visit, &n) == 1);
    long by_submits = resident_kib() - before;
    OK(ebbtide_close(engine));

    CHECK(remove(path) == 0);
    OK(ebbtide_close(make(path, BYTES, 0, &options)));
    for (n = 0; n < opens / 10; n++) open_and_close(path);
    before = resident_kib();
    for (; n < opens; n++) open_and_close(path);
    long by_opens = resident_kib() - before;
    printf("%" PRIu64 " submits: %+ld KiB, %" PRIu64 " opens: %+ld KiB\n", submits, by_submits,
           opens, by_opens);
    return by_submits < 1024 && by_opens < 1024 ? 0 : 1;
}
