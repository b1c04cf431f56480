// Helpers of the tests in C.
#include <ebbtide.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program with the place and the library's last error unless `holds`.
#define CHECK(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #holds, \
                    ebbtide_error()); \
            abort(); \
        } \
    } while (0)

// Checks that a call gives `code` and, unless that is EBBTIDE_OK, a text that contains `text`.
#define CHECK_CODE(call, code, text) \
    do { \
        EbbtideCode given = (call); \
        CHECK(given == (code)); \
        CHECK(given == EBBTIDE_OK || strstr(ebbtide_error(), text) != NULL); \
        CHECK(strchr(ebbtide_error(), '\n') == NULL); \
    } while (0)

#define OK(call) CHECK_CODE(call, EBBTIDE_OK, "")

static inline EbbtideOptions options_of(uint64_t dram_bytes) {
    EbbtideOptions options = {.size = sizeof options, .dram_bytes = dram_bytes};
    return options;
}

// An engine over a new store of this size; with a log it survives crashes.
static inline EbbtideEngine *make(const char *path, uint64_t bytes, uint64_t log_bytes,
                                  const EbbtideOptions *options) {
    EbbtideNewStore store = {.size = sizeof store, .bytes = bytes, .log_bytes = log_bytes};
    EbbtideEngine *engine = NULL;
    OK(ebbtide_create(path, &store, options, &engine));
    return engine;
}

// Runs a job to its end and returns its result.
static inline int32_t run(EbbtideEngine *engine, EbbtideWork work, void *argument) {
    EbbtideTicket *ticket;
    int32_t result = -1;
    OK(ebbtide_submit(engine, work, argument, &ticket));
    OK(ebbtide_wait(ticket, &result));
    return result;
}
