// A map holds values of any size of 8 to 64 bytes, and is found again with them.
#include "check.h"

static const uint64_t BYTES = 4 << 20;

enum { SIZES = 8, KEYS = 50 };

// The value of a key in the map of a size.
static void value_of(uint64_t size, uint64_t key, unsigned char *value) {
    for (uint64_t n = 0; n < size; n++) value[n] = (unsigned char)(size * 31 + key * 7 + n);
}

static EbbtideTypedMap map_of(EbbtideMemory *memory, uint64_t size) {
    char name[20];
    EbbtideTypedMap map;
    snprintf(name, sizeof name, "values of %" PRIu64, size);
    OK(ebbtide_typed_map(memory, name, KEYS, size, &map));
    CHECK(map.capacity == KEYS && map.value_bytes == size);
    return map;
}

static int32_t fill(EbbtideMemory *memory, void *argument) {
    const uint64_t size = *(uint64_t *)argument;
    EbbtideTypedMap map = map_of(memory, size);
    for (uint64_t key = 0; key < KEYS; key++) {
        unsigned char value[8 * SIZES];
        value_of(size, key, value);
        OK(ebbtide_typed_map_set(memory, map, key, value));
    }
    return 0;
}

static int32_t fills(EbbtideMemory *memory, void *argument) {
    (void)argument;
    for (uint64_t size = 8; size <= 8 * SIZES; size += 8)
        OK(ebbtide_transaction(memory, fill, &size, NULL));
    return 0;
}

static int32_t look(EbbtideMemory *memory, void *argument) {
    (void)argument;
    for (uint64_t size = 8; size <= 8 * SIZES; size += 8) {
        EbbtideTypedMap map = map_of(memory, size);
        uint64_t entries, sum;
        bool found;
        OK(ebbtide_typed_map_count(memory, map, &entries));
        CHECK(entries == KEYS);
        for (uint64_t key = 0; key < KEYS; key++) {
            // No byte behind the value is written.
            unsigned char value[8 * SIZES + 1], expected[8 * SIZES + 1];
            memset(value, 0xee, sizeof value);
            memset(expected, 0xee, sizeof expected);
            value_of(size, key, expected);
            OK(ebbtide_typed_map_get(memory, map, key, value, &found));
            CHECK(found && memcmp(value, expected, sizeof value) == 0);
        }
        if (size == 8)
            OK(ebbtide_typed_map_add(memory, map, KEYS - 1, 1, &sum));
        else
            CHECK_CODE(ebbtide_typed_map_add(memory, map, 0, 1, &sum), EBBTIDE_INPUT, "expected 8 to add");
        OK(ebbtide_typed_map_remove(memory, map, 0, &found));
        CHECK(found);
        OK(ebbtide_typed_map_remove(memory, map, 0, &found));
        CHECK(!found);
        OK(ebbtide_typed_map_count(memory, map, &entries));
        CHECK(entries == KEYS - 1);
    }
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    EbbtideOptions options = options_of(4 << 20);
    EbbtideEngine *engine = make(arguments[1], BYTES, 1 << 20, &options);
    CHECK(run(engine, fills, NULL) == 0);
    OK(ebbtide_close(engine));
    OK(ebbtide_open(arguments[1], &options, &engine));
    CHECK(run(engine, look, NULL) == 0);
    OK(ebbtide_close(engine));
    puts("maps had values of every size");
    return 0;
}
