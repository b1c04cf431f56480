// A call with any bad input ends with a code and a line that names the error.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t BYTES = 1 << 20;

static EbbtideMemory *left_over;
static EbbtideEngine *in_use;

static int32_t nothing(EbbtideMemory *memory, void *argument) {
    (void)argument;
    left_over = memory;
    return 7;
}

static int32_t wrong_accesses(EbbtideMemory *memory, void *argument) {
    (void)argument;
    uint64_t value = 5;
    bool flag;
    unsigned char byte;
    CHECK_CODE(ebbtide_load(memory, 3, &value), EBBTIDE_INPUT, "expected a multiple of 8");
    CHECK_CODE(ebbtide_load(memory, BYTES, &value), EBBTIDE_INPUT, "within 1048576 bytes");
    CHECK_CODE(ebbtide_load(memory, UINT64_MAX - 7, &value), EBBTIDE_INPUT, "within");
    CHECK_CODE(ebbtide_load(memory, 0, NULL), EBBTIDE_INPUT, "value is null");
    CHECK_CODE(ebbtide_load(NULL, 0, &value), EBBTIDE_INPUT, "memory is null");
    CHECK_CODE(ebbtide_store(memory, BYTES - 4, 1), EBBTIDE_INPUT, "a multiple of 8");
    CHECK_CODE(ebbtide_read(memory, BYTES - 1, &byte, 2), EBBTIDE_INPUT, "2 bytes at address");
    CHECK_CODE(ebbtide_read(memory, 0, NULL, 1), EBBTIDE_INPUT, "into is null");
    OK(ebbtide_read(memory, BYTES, NULL, 0));
    CHECK_CODE(ebbtide_write(memory, BYTES, &byte, SIZE_MAX), EBBTIDE_INPUT, "within");
    CHECK_CODE(ebbtide_compare_exchange(memory, 0, NULL, 1, &flag), EBBTIDE_INPUT, "null");
    CHECK_CODE(ebbtide_wait_on(memory, 1, 0), EBBTIDE_INPUT, "a multiple of 8");
    CHECK_CODE(ebbtide_transaction(memory, NULL, NULL, NULL), EBBTIDE_INPUT, "body is null");
    CHECK_CODE(ebbtide_durable(memory, 1), EBBTIDE_INPUT, "expected one that was given");
    OK(ebbtide_durable(memory, 0));
    OK(ebbtide_will_need(memory, UINT64_MAX));
    OK(ebbtide_wake(memory, UINT64_MAX));
    EbbtideTypedMap map;
    char long_name[100];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    CHECK_CODE(ebbtide_typed_map(memory, long_name, 10, 8, &map), EBBTIDE_INPUT, "more than 64 bytes");
    CHECK_CODE(ebbtide_typed_map(memory, "\xff", 10, 8, &map), EBBTIDE_INPUT, "name is not UTF-8");
    CHECK_CODE(ebbtide_typed_map(memory, "m", UINT64_MAX, 8, &map), EBBTIDE_INPUT, "do not fit");
    const uint64_t wrong_sizes[] = {0, 12, 72, UINT64_MAX};
    for (int n = 0; n < 4; n++)
        CHECK_CODE(ebbtide_typed_map(memory, "m", 10, wrong_sizes[n], &map), EBBTIDE_INPUT,
                   "expected a multiple of 8 up to 64");
    OK(ebbtide_typed_map(memory, "m", 10, 8, &map));
    CHECK_CODE(ebbtide_typed_map(memory, "m", 20, 8, &map), EBBTIDE_INPUT, "'m' is a map for 10 entries");
    CHECK_CODE(ebbtide_typed_map(memory, "m", 10, 16, &map), EBBTIDE_INPUT, "of 8 and 8 bytes, not a map");
    EbbtideTypedMap forged = {.base = map.base + 8, .capacity = 10, .value_bytes = 8};
    CHECK_CODE(ebbtide_typed_map_set(memory, forged, 1, &value), EBBTIDE_INPUT, "what ebbtide_typed_map gives");
    forged = (EbbtideTypedMap){.base = map.base, .capacity = UINT64_MAX, .value_bytes = 8};
    CHECK_CODE(ebbtide_typed_map_get(memory, forged, 1, &value, &flag), EBBTIDE_INPUT, "within");
    forged = (EbbtideTypedMap){.base = map.base, .capacity = 10, .value_bytes = 1};
    CHECK_CODE(ebbtide_typed_map_remove(memory, forged, 1, &flag), EBBTIDE_INPUT, "value_bytes is 1");
    CHECK_CODE(ebbtide_typed_map_get(memory, map, 1, NULL, &flag), EBBTIDE_INPUT, "value is null");
    CHECK_CODE(ebbtide_typed_map_set(memory, map, 1, NULL), EBBTIDE_INPUT, "value is null");
    uint64_t key = 0;
    while (ebbtide_typed_map_set(memory, map, key, &key) == EBBTIDE_OK) key++;
    CHECK_CODE(ebbtide_typed_map_set(memory, map, key, &key), EBBTIDE_FULL, "for 10 entries is full");
    CHECK(key >= 10);
    // After all this the job goes on.
    OK(ebbtide_load(memory, 8, &value));
    return 0;
}

static int32_t calls_that_would_wait(EbbtideMemory *memory, void *argument) {
    (void)memory;
    EbbtideTicket *ticket = argument;
    EbbtideOptions options = options_of(4 << 20);
    EbbtideNewStore store = {.size = sizeof store, .bytes = BYTES};
    EbbtideEngine *engine;
    EbbtideTicket *other;
    const EbbtideCode misplaced = EBBTIDE_MISPLACED;
    CHECK_CODE(ebbtide_wait(ticket, NULL), misplaced, "inside a job");
    CHECK_CODE(ebbtide_submit(in_use, nothing, NULL, &other), misplaced, "inside a job");
    CHECK_CODE(ebbtide_close(in_use), misplaced, "inside a job");
    CHECK_CODE(ebbtide_create("never", &store, &options, &engine), misplaced, "inside a job");
    CHECK_CODE(ebbtide_open("never", &options, &engine), misplaced, "inside a job");
    return 0;
}

static void wrong_options(const char *path) {
    EbbtideEngine *engine = NULL;
    EbbtideNewStore store = {.size = sizeof store, .bytes = BYTES};
    EbbtideOptions options = options_of(4 << 20);
    CHECK_CODE(ebbtide_create(NULL, &store, &options, &engine), EBBTIDE_INPUT, "path is null");
    CHECK_CODE(ebbtide_create(path, NULL, &options, &engine), EBBTIDE_INPUT, "store is null");
    CHECK_CODE(ebbtide_create(path, &store, NULL, &engine), EBBTIDE_INPUT, "options is null");
    CHECK_CODE(ebbtide_create(path, &store, &options, NULL), EBBTIDE_INPUT, "out is null");
    options.size = 1;
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "options.size is 1");
    options = options_of(1000);
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT,
               "a DRAM budget of 1000 bytes is too small");
    options = options_of(4 << 20);
    options.durability = "sometimes";
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT,
               "'sometimes' is no durability policy");
    options = options_of(4 << 20);
    options.cores = 5000;
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "number of cores");
    options = options_of(4 << 20);
    store.bytes = 0;
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "not 0");
    store = (EbbtideNewStore){.size = sizeof store, .bytes = BYTES, .log_bytes = 4096};
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "a log of 4096");
    CHECK_CODE(ebbtide_open(path, &options, &engine), EBBTIDE_INPUT, "cannot open it");
    store.log_bytes = 0;
    CHECK_CODE(ebbtide_create("/nowhere/store", &store, &options, &engine), EBBTIDE_INPUT, "/nowhere/store: ");
    CHECK(engine == NULL);
    CHECK(access(path, F_OK) != 0);
}

static void other_files(const char *path) {
    EbbtideEngine *engine = NULL;
    EbbtideOptions options = options_of(4 << 20);
    EbbtideNewStore store = {.size = sizeof store, .bytes = BYTES};
    FILE *file = fopen(path, "w");
    for (int n = 0; n < 3000; n++) fputs("a diary\n", file);
    fclose(file);
    CHECK_CODE(ebbtide_open(path, &options, &engine), EBBTIDE_INPUT, "not an Ebbtide data file");
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "would overwrite");
    store.force = 1;
    OK(ebbtide_create(path, &store, &options, &engine));
    OK(ebbtide_close(engine));
    // The number of the version lies behind a mark of eight bytes.
    file = fopen(path, "r+");
    fseek(file, 8, SEEK_SET);
    fputc(99, file);
    fclose(file);
    CHECK_CODE(ebbtide_open(path, &options, &engine), EBBTIDE_INPUT, "of version 99, expected");
    CHECK(remove(path) == 0);
    // A store that survives crashes is replaced by force alone.
    EbbtideNewStore durable = {.size = sizeof durable, .bytes = BYTES, .log_bytes = 1 << 20};
    OK(ebbtide_create(path, &durable, &options, &engine));
    OK(ebbtide_close(engine));
    store.force = 0;
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "survives crashes");
    CHECK_CODE(ebbtide_create(path, &durable, &options, &engine), EBBTIDE_INPUT, "survives crashes");
    OK(ebbtide_open(path, &options, &engine));
    OK(ebbtide_close(engine));
    durable.force = 1;
    OK(ebbtide_create(path, &durable, &options, &engine));
    OK(ebbtide_close(engine));
    CHECK(remove(path) == 0);
    // One without a log cannot be durable, and no file is left of it.
    options.durability = "always";
    CHECK_CODE(ebbtide_create(path, &store, &options, &engine), EBBTIDE_INPUT, "without keeps nothing");
    CHECK(remove(path) != 0);
}

static void *use_elsewhere(void *argument) {
    uint64_t value;
    CHECK_CODE(ebbtide_load(left_over, 0, &value), EBBTIDE_MISPLACED, "of another job");
    return argument;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *path = arguments[1];
    wrong_options(path);
    other_files(path);

    EbbtideOptions options = options_of(4 << 20);
    EbbtideEngine *engine = in_use = make(path, BYTES, 0, &options);
    EbbtideEngine *second = NULL;
    EbbtideNewStore store = {.size = sizeof store, .bytes = BYTES};
    CHECK_CODE(ebbtide_open(path, &options, &second), EBBTIDE_BUSY, "in use by this process");
    CHECK_CODE(ebbtide_create(path, &store, &options, &second), EBBTIDE_BUSY, "in use by this process");
    CHECK_CODE(ebbtide_submit(engine, NULL, NULL, NULL), EBBTIDE_INPUT, "work is null");
    CHECK_CODE(ebbtide_counters(engine, NULL), EBBTIDE_INPUT, "counters is null");
    EbbtideCounters counters = {.size = 0};
    CHECK_CODE(ebbtide_counters(engine, &counters), EBBTIDE_INPUT, "counters.size is 0");
    CHECK(run(engine, wrong_accesses, NULL) == 0);

    // An earlier version's counters had fewer fields: no others are written.
    counters = (EbbtideCounters){.size = 2 * sizeof(uint64_t), .jobs = 42};
    OK(ebbtide_counters(engine, &counters));
    CHECK(counters.accesses > 0 && counters.hits == 0 && counters.jobs == 42);

    EbbtideTicket *ticket;
    OK(ebbtide_submit(engine, nothing, NULL, &ticket));
    CHECK(run(engine, calls_that_would_wait, ticket) == 0);
    int32_t result;
    OK(ebbtide_wait(ticket, &result));
    CHECK(result == 7);
    CHECK_CODE(ebbtide_wait(ticket, &result), EBBTIDE_CLOSED, "ticket is closed");
    CHECK_CODE(ebbtide_forget(ticket), EBBTIDE_CLOSED, "ticket is closed");
    CHECK_CODE(ebbtide_wait(NULL, NULL), EBBTIDE_INPUT, "ticket is null");
    OK(ebbtide_submit(engine, nothing, NULL, &ticket));
    OK(ebbtide_forget(ticket));
    use_elsewhere(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, use_elsewhere, NULL);
    pthread_join(thread, NULL);

    OK(ebbtide_submit(engine, nothing, NULL, &ticket));
    pid_t child = fork();
    if (child == 0) {
        CHECK_CODE(ebbtide_submit(engine, nothing, NULL, NULL), EBBTIDE_FORKED, "before a fork");
        CHECK_CODE(ebbtide_wait(ticket, NULL), EBBTIDE_FORKED, "before a fork");
        CHECK_CODE(ebbtide_close(engine), EBBTIDE_FORKED, "before a fork");
        // The child may have engines of its own.
        char own[4096];
        snprintf(own, sizeof own, "%s.child", path);
        EbbtideEngine *mine = make(own, BYTES, 0, &options);
        CHECK(run(mine, nothing, NULL) == 7);
        OK(ebbtide_close(mine));
        remove(own);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    OK(ebbtide_wait(ticket, NULL));

    OK(ebbtide_submit(engine, nothing, NULL, &ticket));
    OK(ebbtide_close(engine));
    OK(ebbtide_wait(ticket, &result));
    CHECK_CODE(ebbtide_submit(engine, nothing, NULL, NULL), EBBTIDE_CLOSED, "engine is closed");
    CHECK_CODE(ebbtide_close(engine), EBBTIDE_CLOSED, "engine is closed");
    EbbtideCode garbage = ebbtide_close((EbbtideEngine *)&store);
    CHECK(garbage == EBBTIDE_CLOSED || garbage == EBBTIDE_FORKED);
    puts("every wrong call had its code");
    return 0;
}
