// A page that cannot be read makes the call fail with a code. The callback goes on and returns.
#include "check.h"
#include <unistd.h>

static const uint64_t BYTES = 4 << 20;

static int returned;

static int32_t fill(EbbtideMemory *memory, void *argument) {
    (void)argument;
    for (uint64_t at = 0; at < BYTES; at += 4096) OK(ebbtide_store(memory, at, at + 1));
    return 0;
}

static int32_t read_all(EbbtideMemory *memory, void *argument) {
    uint64_t *failed = argument;
    for (uint64_t at = 0; at < BYTES; at += 4096) {
        uint64_t value;
        EbbtideCode code = ebbtide_load(memory, at, &value);
        if (code == EBBTIDE_OK) {
            CHECK(value == at + 1);
        } else {
            CHECK_CODE(code, EBBTIDE_FAILED, "page ");
            ++*failed;
        }
    }
    returned++;
    return 0;
}

// Stores, and then meets a page that cannot be read.
static int32_t body(EbbtideMemory *memory, void *argument) {
    (void)argument;
    EbbtideCode first = EBBTIDE_OK;
    for (uint64_t at = 0; at < BYTES && first == EBBTIDE_OK; at += 4096) {
        uint64_t value;
        first = ebbtide_load(memory, at, &value);
    }
    CHECK_CODE(first, EBBTIDE_FAILED, "page ");
    uint64_t value;
    CHECK_CODE(ebbtide_load(memory, 0, &value), EBBTIDE_AGAIN, "its body has to return");
    CHECK_CODE(ebbtide_store(memory, 0, 5), EBBTIDE_AGAIN, "its body has to return");
    returned++;
    // A body that returns 0 is not committed either.
    return 0;
}

static int32_t in_transaction(EbbtideMemory *memory, void *argument) {
    (void)argument;
    CHECK_CODE(ebbtide_transaction(memory, body, NULL, NULL), EBBTIDE_FAILED, "page ");
    return 3;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *path = arguments[1];
    EbbtideOptions options = options_of(1800 << 10);
    EbbtideEngine *engine = make(path, BYTES, 0, &options);
    CHECK(run(engine, fill, NULL) == 0);
    uint64_t failed = 0;
    CHECK(run(engine, read_all, &failed) == 0);
    CHECK(failed == 0);
    // The file loses all its pages, and those that are in DRAM stay.
    CHECK(truncate(path, 4096) == 0);
    CHECK(run(engine, read_all, &failed) == 0);
    CHECK(failed > 0 && failed < BYTES / 4096);
    CHECK(run(engine, in_transaction, NULL) == 3);
    CHECK(returned == 3);
    EbbtideCounters counters = {.size = sizeof counters};
    OK(ebbtide_counters(engine, &counters));
    CHECK(counters.read_errors > 0);
    OK(ebbtide_close(engine));
    puts("device errors were codes");
    return 0;
}
