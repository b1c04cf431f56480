// Counts words in a store on flash: `words STORE WORD...` prints the counts of all runs.
#include <ebbtide.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *doing) {
    fprintf(stderr, "%s: %s\n", doing, ebbtide_error());
    return 1;
}

// Adds one to a count, in a transaction of its own.
static int32_t increment(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) {
    uint64_t count = 0;
    if (old.data) memcpy(&count, old.data, sizeof count);
    count += *(const uint64_t *)argument;
    return (int32_t)ebbtide_new_value(new_value, &count, sizeof count);
}

// Prints all words in order, with their counts.
static int print(EbbtideMap *words) {
    EbbtideIterator *walk;
    EbbtideBytes word, value;
    if (ebbtide_map_iterate(words, NULL, 0, NULL, 0, &walk)) return failed("iterate");
    EbbtideCode code = ebbtide_iterator_next(walk, &word, &value);
    for (; code == EBBTIDE_OK && word.data; code = ebbtide_iterator_next(walk, &word, &value)) {
        uint64_t count;
        memcpy(&count, value.data, sizeof count);
        printf("%.*s %" PRIu64 "\n", (int)word.size, (const char *)word.data, count);
    }
    ebbtide_iterator_close(walk);
    return code ? failed("iterate") : 0;
}

int main(int count, char **arguments) {
    if (count < 2) return fprintf(stderr, "usage: words STORE WORD...\n"), 2;
    EbbtideStoreOptions options = {.size = sizeof options};
    options.bytes = 64 << 20;         // room for keys and values; the store can grow
    options.dram_bytes = 16 << 20;    // covers everything
    EbbtideStore *store;
    EbbtideMap *words;
    if (ebbtide_store_open(arguments[1], &options, &store)) return failed("open");
    if (ebbtide_map(store, "words", true, &words)) return failed("map");    // true: in order
    for (int n = 2; n < count; n++) {
        uint64_t one = 1;
        if (ebbtide_map_update(words, arguments[n], strlen(arguments[n]), increment, &one))
            return failed("update");
    }
    int result = print(words);
    ebbtide_map_close(words);
    return ebbtide_store_close(store) ? failed("close") : result;
}
