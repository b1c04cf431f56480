// Acknowledged transactions are there, whole, after the process was killed.
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t BYTES = 4 << 20;

enum { ACCOUNTS = 400, MONEY = 100 };

static uint64_t at_of(uint64_t account) { return account * 512; }

static int32_t open_account(EbbtideMemory *memory, void *argument) {
    (void)argument;
    for (uint64_t n = 0; n < ACCOUNTS; n++) {
        EbbtideCode code = ebbtide_store(memory, at_of(n), MONEY);
        if (code != EBBTIDE_OK) return 1;
    }
    return 0;
}

static int runs;

static int32_t move(EbbtideMemory *memory, void *argument) {
    uint64_t number = *(uint64_t *)argument;
    uint64_t from = at_of(number % ACCOUNTS), to = at_of((number * 7 + 1) % ACCOUNTS), value;
    runs++;
    if (ebbtide_load(memory, from, &value) != EBBTIDE_OK) return 1;
    if (value == 0 || from == to) return 0;
    if (ebbtide_store(memory, from, value - 1) != EBBTIDE_OK) return 1;
    if (ebbtide_load(memory, to, &value) != EBBTIDE_OK) return 1;
    if (ebbtide_store(memory, to, value + 1) != EBBTIDE_OK) return 1;
    // The transaction sees its own stores.
    uint64_t seen;
    return ebbtide_load(memory, to, &seen) == EBBTIDE_OK && seen == value + 1 ? 0 : 1;
}

static int32_t moves(EbbtideMemory *memory, void *argument) {
    return (int32_t)ebbtide_transaction(memory, move, argument, NULL);
}

static int32_t give_up(EbbtideMemory *memory, void *argument) {
    (void)argument;
    OK(ebbtide_store(memory, at_of(0), 1000000));
    return 9;
}

static int32_t nested(EbbtideMemory *memory, void *argument) {
    OK(ebbtide_store(memory, at_of(1), 1000000));
    CHECK_CODE(ebbtide_transaction(memory, give_up, argument, NULL), EBBTIDE_ABANDONED, "9");
    CHECK_CODE(ebbtide_store(memory, 0, 0), EBBTIDE_AGAIN, "has to return");
    return 0;
}

static int32_t too_large(EbbtideMemory *memory, void *argument) {
    (void)argument;
    static unsigned char bytes[80 << 10];
    EbbtideCode code = ebbtide_write(memory, 0, bytes, sizeof bytes);
    CHECK(code == EBBTIDE_OK || code == EBBTIDE_AGAIN);
    return 0;
}

static int32_t setup(EbbtideMemory *memory, void *argument) {
    uint64_t lsn = 0, value;
    OK(ebbtide_transaction(memory, open_account, argument, &lsn));
    CHECK(lsn > 0);
    OK(ebbtide_durable(memory, lsn));
    CHECK_CODE(ebbtide_durable(memory, UINT64_MAX), EBBTIDE_INPUT, "lsn is");
    CHECK_CODE(ebbtide_transaction(memory, give_up, NULL, NULL), EBBTIDE_ABANDONED, "returned 9");
    CHECK_CODE(ebbtide_transaction(memory, nested, NULL, NULL), EBBTIDE_ABANDONED, "returned 9");
    CHECK_CODE(ebbtide_transaction(memory, too_large, NULL, NULL), EBBTIDE_INPUT, "expected at most");
    OK(ebbtide_load(memory, at_of(0), &value));
    CHECK(value == MONEY);
    OK(ebbtide_load(memory, at_of(1), &value));
    CHECK(value == MONEY);
    uint64_t at = at_of(ACCOUNTS);
    OK(ebbtide_store(memory, at, 77));
    OK(ebbtide_persist(memory, at, 8, &lsn));
    OK(ebbtide_durable(memory, lsn));
    return 0;
}

static int32_t sum(EbbtideMemory *memory, void *argument) {
    uint64_t *total = argument, value;
    for (uint64_t n = 0; n < ACCOUNTS; n++) {
        OK(ebbtide_load(memory, at_of(n), &value));
        *total += value;
    }
    OK(ebbtide_load(memory, at_of(ACCOUNTS), &value));
    CHECK(value == 77);
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *path = arguments[1];
    EbbtideOptions options = options_of(4 << 20);
    int told[2];
    CHECK(pipe(told) == 0);
    pid_t child = fork();
    if (child == 0) {
        EbbtideEngine *engine = make(path, BYTES, 1 << 20, &options);
        CHECK(run(engine, setup, NULL) == 0);
        for (uint64_t n = 0;; n++) {
            CHECK(run(engine, moves, &n) == 0);
            CHECK(write(told[1], "", 1) == 1);
        }
    }
    close(told[1]);
    // Killed after it has acknowledged some.
    char one;
    for (int n = 0; n < 20; n++) CHECK(read(told[0], &one, 1) == 1);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    EbbtideEngine *engine;
    OK(ebbtide_open(path, &options, &engine));
    uint64_t total = 0;
    CHECK(run(engine, sum, &total) == 0);
    CHECK(total == ACCOUNTS * MONEY);
    OK(ebbtide_close(engine));
    puts("transactions were whole after a kill");
    return 0;
}
