// Maps from bytes to bytes: found again by name, changed by threads, walked through, and grown.
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200 };

static EbbtideStore *open_store(const char *path) {
    EbbtideStoreOptions options = {.size = sizeof options, .dram_bytes = 8 << 20, .bytes = 2 << 20};
    options.durability = "every:1s";
    EbbtideStore *store;
    OK(ebbtide_store_open(path, &options, &store));
    return store;
}

static EbbtideMap *map_of(EbbtideStore *store, const char *name, bool ordered) {
    EbbtideMap *map;
    OK(ebbtide_map(store, name, ordered, &map));
    return map;
}

static void set(EbbtideMap *map, const char *key, const char *value) {
    OK(ebbtide_map_set(map, key, strlen(key), value, strlen(value)));
}

static void check_value(EbbtideMap *map, const char *key, const char *expected) {
    EbbtideBytes value;
    OK(ebbtide_map_get(map, key, strlen(key), &value));
    CHECK(value.data != NULL && value.size == strlen(expected));
    CHECK(memcmp(value.data, expected, value.size) == 0);
    ebbtide_bytes_free(value);
}

static int32_t increment(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) {
    uint64_t count = 0;
    if (old.data) memcpy(&count, old.data, sizeof count);
    count += *(uint64_t *)argument;
    return ebbtide_new_value(new_value, &count, sizeof count) == EBBTIDE_OK ? 0 : 1;
}

static int32_t give_up(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) {
    (void)old, (void)argument;
    ebbtide_new_value(new_value, "no", 2);
    return 7;
}

static int32_t call_back(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) {
    (void)old, (void)new_value;
    EbbtideBytes value;
    CHECK_CODE(ebbtide_map_get(argument, "a", 1, &value), EBBTIDE_MISPLACED, "inside an update");
    CHECK_CODE(ebbtide_map_update(argument, "a", 1, give_up, NULL), EBBTIDE_MISPLACED, "an update");
    return 0;
}

static int32_t clear(EbbtideBytes old, EbbtideNewValue *new_value, void *argument) {
    (void)old, (void)new_value, (void)argument;
    return 0;
}

static void *count(void *map) {
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t one = 1;
        OK(ebbtide_map_update(map, "count", 5, increment, &one));
    }
    return NULL;
}

static void check_walk(EbbtideMap *map, const char *from, const char *to, const char *expected) {
    EbbtideIterator *walk;
    EbbtideBytes key, value;
    char said[200] = "";
    const size_t from_bytes = from ? strlen(from) : 0, to_bytes = to ? strlen(to) : 0;
    OK(ebbtide_map_iterate(map, from, from_bytes, to, to_bytes, &walk));
    for (;;) {
        OK(ebbtide_iterator_next(walk, &key, &value));
        if (!key.data) break;
        snprintf(said + strlen(said), sizeof said - strlen(said), "%.*s=%.*s ", (int)key.size,
                 (const char *)key.data, (int)value.size, (const char *)value.data);
    }
    CHECK(strcmp(said, expected) == 0);
    OK(ebbtide_iterator_close(walk));
    CHECK_CODE(ebbtide_iterator_next(walk, &key, &value), EBBTIDE_CLOSED, "iterator is closed");
}

static void check_updates(EbbtideMap *map) {
    pthread_t threads[THREADS];
    for (int thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, count, map) == 0);
    for (int thread = 0; thread < THREADS; thread++) CHECK(pthread_join(threads[thread], NULL) == 0);
    EbbtideBytes value;
    OK(ebbtide_map_get(map, "count", 5, &value));
    uint64_t counted;
    CHECK(value.size == sizeof counted);
    memcpy(&counted, value.data, sizeof counted);
    CHECK(counted == THREADS * ROUNDS);
    ebbtide_bytes_free(value);
    CHECK_CODE(ebbtide_map_update(map, "count", 5, give_up, NULL), EBBTIDE_ABANDONED, "returned 7");
    OK(ebbtide_map_update(map, "none", 4, call_back, map));
    OK(ebbtide_map_update(map, "count", 5, clear, NULL));
    OK(ebbtide_map_get(map, "count", 5, &value));
    CHECK(value.data == NULL);
}

static void check_long_keys(EbbtideMap *map) {
    static char key[1025];
    EbbtideBytes value;
    OK(ebbtide_map_set(map, key, 1024, key, 3));
    OK(ebbtide_map_get(map, key, 1024, &value));
    CHECK(value.size == 3);
    ebbtide_bytes_free(value);
    CHECK_CODE(ebbtide_map_set(map, key, 1025, key, 3), EBBTIDE_INPUT, "at most 1024");
    CHECK_CODE(ebbtide_map_get(map, NULL, 1, &value), EBBTIDE_INPUT, "key is null");
    CHECK_CODE(ebbtide_map_get(map, key, (size_t)-1, &value), EBBTIDE_INPUT, "more than memory");
    CHECK_CODE(ebbtide_map_set(map, key, 1, key, (size_t)-1), EBBTIDE_INPUT, "more than memory");
}

int main(int arguments, char **argument) {
    CHECK(arguments == 2);
    EbbtideStore *store = open_store(argument[1]);
    EbbtideMap *users = map_of(store, "users", false), *days = map_of(store, "days", true);
    set(users, "ada", "Lovelace");
    check_walk(users, NULL, NULL, "ada=Lovelace ");
    set(users, "empty", "");
    check_updates(users);
    set(days, "2026-04", "low");
    set(days, "2026-03", "high");
    set(days, "2025-12", "");
    check_walk(days, NULL, NULL, "2025-12= 2026-03=high 2026-04=low ");
    check_walk(days, "2026", "2026-04", "2026-03=high ");
    check_walk(days, "2026-04", "2026", "");
    check_walk(days, "", "2026", "2025-12= ");
    EbbtideIterator *walk;
    CHECK_CODE(ebbtide_map_iterate(users, "a", 1, NULL, 0, &walk), EBBTIDE_INPUT, "expected null");

    // A value of 5 MB fits after the store has grown.
    const size_t large = 5 << 20;
    char *bytes = calloc(large, 1);
    CHECK_CODE(ebbtide_map_set(users, "large", 5, bytes, large), EBBTIDE_FULL, "the store is full");
    OK(ebbtide_store_grow(store, 16 << 20));
    OK(ebbtide_map_set(users, "large", 5, bytes, large));
    free(bytes);
    check_long_keys(users);
    CHECK_CODE(ebbtide_store_grow(store, 1 << 20), EBBTIDE_INPUT, "expected more than 16MiB");
    CHECK_CODE(ebbtide_map(store, "users", true, &days), EBBTIDE_INPUT, "'users' is a map");
    OK(ebbtide_map_close(days));
    OK(ebbtide_store_close(store));
    CHECK_CODE(ebbtide_map_set(users, "a", 1, "b", 1), EBBTIDE_CLOSED, "the store was stopped");
    OK(ebbtide_map_close(users));
    CHECK_CODE(ebbtide_map_close(users), EBBTIDE_CLOSED, "map is closed");

    EbbtideStoreOptions options = {.size = sizeof options, .dram_bytes = 8 << 20};
    OK(ebbtide_store_open(argument[1], &options, &store));
    users = map_of(store, "users", false);
    check_value(users, "ada", "Lovelace");
    check_value(users, "empty", "");
    uint64_t entries;
    bool found;
    OK(ebbtide_map_count(users, &entries));
    CHECK(entries == 4);
    OK(ebbtide_map_remove(users, "large", 5, &found));
    CHECK(found);
    OK(ebbtide_map_remove(users, "large", 5, &found));
    CHECK(!found);
    OK(ebbtide_store_close(store));
    OK(ebbtide_map_close(users));
    puts("maps had keys and values of bytes");
    return 0;
}
