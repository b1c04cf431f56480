// Ebbtide for C++17: handles that close themselves, and exceptions instead of codes.
//
// docs/C.md is the guide, and ebbtide.h describes each call.

#ifndef EBBTIDE_HPP
#define EBBTIDE_HPP

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ebbtide.h"

namespace ebbtide {

// A call that failed: its code, and one line.
class Error : public std::runtime_error {
public:
    Error(EbbtideCode code, const std::string &text) : std::runtime_error(text), code_(code) {}
    EbbtideCode code() const noexcept { return code_; }

private:
    EbbtideCode code_;
};

// Returns the default options with this DRAM budget.
inline EbbtideOptions options(std::uint64_t dram_bytes) {
    EbbtideOptions options{};
    options.size = sizeof options;
    options.dram_bytes = dram_bytes;
    return options;
}

// Returns the options to create a store of this size. With a log the store survives crashes.
inline EbbtideNewStore new_store(std::uint64_t bytes, std::uint64_t log_bytes = 0) {
    EbbtideNewStore store{};
    store.size = sizeof store;
    store.bytes = bytes;
    store.log_bytes = log_bytes;
    return store;
}

namespace detail {

// Throws the error of a code, after the call has returned.
inline void check(EbbtideCode code) {
    if (code != EBBTIDE_OK) throw Error(code, ebbtide_error());
}

// Saves the exception state of the C++ runtime during a call (`__cxa_eh_globals` of the Itanium ABI).
//
// The state belongs to a thread, but a job that waits lets other jobs run on its thread. So a job must
// not make a call in a catch block; the constructor checks that. A destructor that runs during
// unwinding may make calls. The state is then set aside during the call.
class Unwinding {
public:
    Unwinding() : kept_(*globals()) {
        if (kept_.caught && kept_.uncaught == 0) {
            throw Error(EBBTIDE_MISPLACED, "the call was made in a catch block: expected none there");
        }
        *globals() = Globals{nullptr, 0};
    }
    ~Unwinding() { *globals() = kept_; }
    Unwinding(const Unwinding &) = delete;
    Unwinding &operator=(const Unwinding &) = delete;

private:
    struct Globals {
        void *caught;
        unsigned int uncaught;
    };
    static Globals *globals() { return reinterpret_cast<Globals *>(abi::__cxa_get_globals()); }
    Globals kept_;
};

// Makes a call that may suspend the job. Returns its code.
template <class Call> EbbtideCode suspending(Call &&call) {
    Unwinding unwinding;
    return call();
}

} // namespace detail

template <class T> class TypedMap;

// The address space of an engine. Valid for one job, until that job returns.
//
// Other jobs may run on the same kernel thread during a call.
class Memory {
public:
    explicit Memory(EbbtideMemory *memory) noexcept : memory_(memory) {}

    std::uint64_t size() const {
        std::uint64_t bytes = 0;
        call([&] { return ebbtide_size(memory_, &bytes); });
        return bytes;
    }

    std::uint64_t load(std::uint64_t at) const {
        std::uint64_t value = 0;
        call([&] { return ebbtide_load(memory_, at, &value); });
        return value;
    }

    void store(std::uint64_t at, std::uint64_t value) const {
        call([&] { return ebbtide_store(memory_, at, value); });
    }

    // Stores `desired` in the word at `at` if that word is `expected`. Returns true if it did.
    //
    // Sets `expected` to the word that was found.
    bool compare_exchange(std::uint64_t at, std::uint64_t &expected, std::uint64_t desired) const {
        bool exchanged = false;
        call([&] {
            return ebbtide_compare_exchange(memory_, at, &expected, desired, &exchanged);
        });
        return exchanged;
    }

    void read(std::uint64_t at, void *into, std::size_t bytes) const {
        auto *place = static_cast<std::uint8_t *>(into);
        call([&] { return ebbtide_read(memory_, at, place, bytes); });
    }

    void write(std::uint64_t at, const void *from, std::size_t bytes) const {
        const auto *place = static_cast<const std::uint8_t *>(from);
        call([&] { return ebbtide_write(memory_, at, place, bytes); });
    }

    void wait_on(std::uint64_t at, std::uint64_t seen) const {
        call([&] { return ebbtide_wait_on(memory_, at, seen); });
    }

    void wake(std::uint64_t at) const {
        call([&] { return ebbtide_wake(memory_, at); });
    }

    void will_need(std::uint64_t at) const {
        call([&] { return ebbtide_will_need(memory_, at); });
    }

    // Runs `body(Memory)` as a transaction, perhaps several times. Returns its place in the log.
    //
    // An exception of `body` abandons the transaction and is thrown again. `body` must not catch an
    // exception of a call.
    template <class Body> std::uint64_t transaction(Body &&body) const {
        Run<Body> run{body, nullptr};
        std::uint64_t lsn = 0;
        EbbtideCode code = detail::suspending(
            [&] { return ebbtide_transaction(memory_, Run<Body>::once, &run, &lsn); });
        if (code == EBBTIDE_ABANDONED && run.thrown) std::rethrow_exception(run.thrown);
        detail::check(code);
        return lsn;
    }

    // Waits until the transaction at `lsn` and all earlier ones may be acknowledged.
    void durable(std::uint64_t lsn) const {
        call([&] { return ebbtide_durable(memory_, lsn); });
    }

    // Logs the current contents of a range. Returns the place in the log.
    std::uint64_t persist(std::uint64_t at, std::uint64_t bytes) const {
        std::uint64_t lsn = 0;
        call([&] { return ebbtide_persist(memory_, at, bytes, &lsn); });
        return lsn;
    }

    // Finds the range with this name, or makes one of zeros. Returns its address.
    std::uint64_t range(const std::string &name, std::uint64_t bytes) const {
        std::uint64_t at = 0;
        call([&] { return ebbtide_range(memory_, name.c_str(), bytes, &at); });
        return at;
    }

    // Finds the map from words to values of type `T` with this name, or makes an empty one.
    template <class T = std::uint64_t>
    TypedMap<T> typed_map(const std::string &name, std::uint64_t capacity) const;

private:
    template <class T> friend class TypedMap;

    template <class Body> struct Run {
        Body &body;
        std::exception_ptr thrown;

        static std::int32_t once(EbbtideMemory *memory, void *argument) noexcept {
            auto *run = static_cast<Run *>(argument);
            run->thrown = nullptr;
            try {
                run->body(Memory(memory));
                return 0;
            } catch (...) {
                run->thrown = std::current_exception();
                return 1;
            }
        }
    };

    template <class Call> void call(Call &&call) const { detail::check(detail::suspending(call)); }

    EbbtideMemory *memory_;
};

// A hash table from words to values of a plain type.
//
// It consists of an address and two sizes, and all jobs may copy it. A value takes whole words, so one
// of 12 bytes takes as much as one of 16.
template <class T = std::uint64_t> class TypedMap {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                  "a value is copied byte by byte");
    static_assert(sizeof(T) <= 64, "a value has at most 64 bytes");

public:
    std::optional<T> get(Memory memory, std::uint64_t key) const {
        Words words{};
        bool found = false;
        memory.call(
            [&] { return ebbtide_typed_map_get(memory.memory_, map_, key, &words, &found); });
        if (!found) return std::nullopt;
        T value;
        std::memcpy(static_cast<void *>(&value), &words, sizeof value);
        return value;
    }

    void set(Memory memory, std::uint64_t key, const T &value) const {
        Words words{};
        std::memcpy(&words, &value, sizeof value);
        memory.call([&] { return ebbtide_typed_map_set(memory.memory_, map_, key, &words); });
    }

    // Adds to the value of `key`. A missing key counts as 0. Returns the sum.
    std::uint64_t add(Memory memory, std::uint64_t key, std::uint64_t delta) const {
        static_assert(std::is_same_v<T, std::uint64_t>, "sums are of words");
        std::uint64_t sum = 0;
        memory.call([&] { return ebbtide_typed_map_add(memory.memory_, map_, key, delta, &sum); });
        return sum;
    }

    // Removes `key`. Returns true if it was there.
    bool remove(Memory memory, std::uint64_t key) const {
        bool found = false;
        memory.call([&] { return ebbtide_typed_map_remove(memory.memory_, map_, key, &found); });
        return found;
    }

    std::uint64_t count(Memory memory) const {
        std::uint64_t entries = 0;
        memory.call([&] { return ebbtide_typed_map_count(memory.memory_, map_, &entries); });
        return entries;
    }

private:
    friend class Memory;
    struct Words {
        std::uint64_t word[(sizeof(T) + 7) / 8];
    };
    EbbtideTypedMap map_{};
};

template <class T>
TypedMap<T> Memory::typed_map(const std::string &name, std::uint64_t capacity) const {
    TypedMap<T> map;
    const std::uint64_t bytes = sizeof(typename TypedMap<T>::Words);
    call([&] { return ebbtide_typed_map(memory_, name.c_str(), capacity, bytes, &map.map_); });
    return map;
}

namespace detail {

struct Nothing {};

// The result of a job, or its exception.
template <class T> struct Outcome {
    std::optional<std::conditional_t<std::is_void_v<T>, Nothing, T>> value;
    std::exception_ptr thrown;
};

// A job and its outcome.
//
// The job shares it until it has ended, even if the ticket is dropped.
template <class T, class Job> struct Submitted : Outcome<T> {
    explicit Submitted(Job &&job) : job(std::move(job)) {}
    std::optional<Job> job;

    static std::int32_t run(EbbtideMemory *memory, void *argument) noexcept {
        using Held = std::shared_ptr<Submitted>;
        const std::unique_ptr<Held> held(static_cast<Held *>(argument));
        Submitted &own = **held;
        try {
            if constexpr (std::is_void_v<T>) {
                (*own.job)(Memory(memory));
            } else {
                own.value.emplace((*own.job)(Memory(memory)));
            }
        } catch (...) {
            own.thrown = std::current_exception();
        }
        own.job.reset();
        return 0;
    }
};

} // namespace detail

// The handle of a job's result.
//
// Dropping it does not wait; the job still runs.
template <class T> class Ticket {
public:
    // Waits for the job's end, and until its transactions may be acknowledged.
    //
    // Throws the exception of the job.
    T wait() {
        const EbbtideCode code = ebbtide_wait(ticket_.get(), nullptr);
        // A call inside a job leaves the ticket as it is.
        if (code != EBBTIDE_MISPLACED) static_cast<void>(ticket_.release());
        detail::check(code);
        if (outcome_->thrown) std::rethrow_exception(outcome_->thrown);
        if constexpr (!std::is_void_v<T>) return std::move(*outcome_->value);
    }

private:
    friend class Engine;
    friend class Region;
    struct Forget {
        void operator()(EbbtideTicket *ticket) const noexcept { ebbtide_forget(ticket); }
    };
    Ticket(EbbtideTicket *ticket, std::shared_ptr<detail::Outcome<T>> outcome)
        : ticket_(ticket), outcome_(std::move(outcome)) {}

    std::unique_ptr<EbbtideTicket, Forget> ticket_;
    std::shared_ptr<detail::Outcome<T>> outcome_;
};

// An address space on flash behind a DRAM cache, with cores that run jobs.
//
// The destructor closes it.
class Engine {
public:
    // Creates a store in a file and starts an engine over it.
    static Engine create(const std::string &path, const EbbtideNewStore &store,
                         const EbbtideOptions &options) {
        EbbtideEngine *engine = nullptr;
        detail::check(ebbtide_create(path.c_str(), &store, &options, &engine));
        return Engine(engine);
    }

    // Opens the store in a file, recovers it and starts an engine over it.
    static Engine open(const std::string &path, const EbbtideOptions &options) {
        EbbtideEngine *engine = nullptr;
        detail::check(ebbtide_open(path.c_str(), &options, &engine));
        return Engine(engine);
    }

    // Submits `job(Memory)`, which runs on a stack of its own.
    //
    // Any thread may submit, but not from inside a job.
    template <class Job> auto submit(Job job) const -> Ticket<std::invoke_result_t<Job &, Memory>> {
        using T = std::invoke_result_t<Job &, Memory>;
        using Submitted = detail::Submitted<T, Job>;
        auto submitted = std::make_shared<Submitted>(std::move(job));
        auto held = std::make_unique<std::shared_ptr<Submitted>>(submitted);
        EbbtideTicket *ticket = nullptr;
        detail::check(ebbtide_submit(engine_.get(), Submitted::run, held.get(), &ticket));
        // The job owns it now.
        static_cast<void>(held.release());
        return Ticket<T>(ticket, std::move(submitted));
    }

    EbbtideCounters counters() const {
        EbbtideCounters counters{};
        counters.size = sizeof counters;
        detail::check(ebbtide_counters(engine_.get(), &counters));
        return counters;
    }

    // Waits until all jobs have ended and closes the engine.
    //
    // Throws an error that the destructor would ignore.
    void close() {
        const EbbtideCode code = ebbtide_close(engine_.get());
        if (code != EBBTIDE_MISPLACED) static_cast<void>(engine_.release());
        detail::check(code);
    }

private:
    struct Close {
        void operator()(EbbtideEngine *engine) const noexcept { ebbtide_close(engine); }
    };
    explicit Engine(EbbtideEngine *engine) : engine_(engine) {}

    std::unique_ptr<EbbtideEngine, Close> engine_;
};

// Keys and values of bytes in a store, which any thread uses.
//
// Closing the store closes its maps.
class Map {
public:
    class Iterator;
    class Range;

    std::optional<std::string> get(std::string_view key) const {
        EbbtideBytes value{};
        detail::check(ebbtide_map_get(map_.get(), key.data(), key.size(), &value));
        if (!value.data) return std::nullopt;
        std::string copy(reinterpret_cast<const char *>(value.data), value.size);
        ebbtide_bytes_free(value);
        return copy;
    }

    void set(std::string_view key, std::string_view value) const {
        detail::check(
            ebbtide_map_set(map_.get(), key.data(), key.size(), value.data(), value.size()));
    }

    // Removes `key`. Returns true if it was there.
    bool remove(std::string_view key) const {
        bool found = false;
        detail::check(ebbtide_map_remove(map_.get(), key.data(), key.size(), &found));
        return found;
    }

    // Replaces the value of `key` by `change` of it, as one transaction. Returns the new value.
    //
    // `change` takes a `std::optional<std::string_view>` and returns a `std::optional<std::string>`.
    // No value is `std::nullopt`. It runs on another thread, perhaps several times, and makes no
    // calls with stores and engines. An exception changes nothing and is thrown again.
    template <class Change>
    std::optional<std::string> update(std::string_view key, Change &&change) const {
        Changing<Change> changing{change, std::nullopt, nullptr};
        const EbbtideCode code = ebbtide_map_update(map_.get(), key.data(), key.size(),
                                                    Changing<Change>::once, &changing);
        if (code == EBBTIDE_ABANDONED && changing.thrown) std::rethrow_exception(changing.thrown);
        detail::check(code);
        return std::move(changing.after);
    }

    std::uint64_t count() const {
        std::uint64_t entries = 0;
        detail::check(ebbtide_map_count(map_.get(), &entries));
        return entries;
    }

    // Returns all keys with their values: `for (auto [key, value] : map.all())`.
    Range all() const;

    // Returns the keys of an ordered map from `from` on, to before `to`, with their values.
    Range range(std::string_view from, std::optional<std::string_view> to = std::nullopt) const;

private:
    friend class Store;
    struct Close {
        void operator()(EbbtideMap *map) const noexcept { ebbtide_map_close(map); }
    };
    explicit Map(EbbtideMap *map) : map_(map) {}

    template <class Change> struct Changing {
        Change &change;
        std::optional<std::string> after;
        std::exception_ptr thrown;

        static std::int32_t once(EbbtideBytes old, EbbtideNewValue *new_value,
                                 void *argument) noexcept {
            auto *changing = static_cast<Changing *>(argument);
            changing->thrown = nullptr;
            try {
                std::optional<std::string_view> before;
                if (old.data) before.emplace(reinterpret_cast<const char *>(old.data), old.size);
                const auto &after = changing->after = changing->change(before);
                if (after)
                    detail::check(ebbtide_new_value(new_value, after->data(), after->size()));
                return 0;
            } catch (...) {
                changing->thrown = std::current_exception();
                return 1;
            }
        }
    };

    std::unique_ptr<EbbtideMap, Close> map_;
};

// A walk through a map. The views of a pair stay valid until the next step.
class Map::Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::pair<std::string_view, std::string_view>;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    Iterator() = default;
    explicit Iterator(EbbtideIterator *walk) : walk_(walk) { step(); }

    reference operator*() const { return pair_; }
    pointer operator->() const { return &pair_; }
    Iterator &operator++() {
        step();
        return *this;
    }
    void operator++(int) { step(); }
    bool operator==(const Iterator &other) const { return walk_ == other.walk_; }
    bool operator!=(const Iterator &other) const { return !(*this == other); }

private:
    // Goes to the next pair. At the end it is as a new iterator without a walk.
    void step() {
        EbbtideBytes key{}, value{};
        detail::check(ebbtide_iterator_next(walk_, &key, &value));
        if (!key.data) {
            walk_ = nullptr;
            return;
        }
        pair_ = {view(key), view(value)};
    }
    static std::string_view view(EbbtideBytes bytes) {
        return {reinterpret_cast<const char *>(bytes.data), bytes.size};
    }

    EbbtideIterator *walk_ = nullptr;
    value_type pair_;
};

// Keys and values of a map, which are walked through once.
class Map::Range {
public:
    Iterator begin() const { return Iterator(walk_.get()); }
    Iterator end() const { return Iterator(); }

private:
    friend class Map;
    struct Close {
        void operator()(EbbtideIterator *walk) const noexcept { ebbtide_iterator_close(walk); }
    };
    explicit Range(EbbtideIterator *walk) : walk_(walk) {}

    std::unique_ptr<EbbtideIterator, Close> walk_;
};

inline Map::Range Map::all() const {
    EbbtideIterator *walk = nullptr;
    detail::check(ebbtide_map_iterate(map_.get(), nullptr, 0, nullptr, 0, &walk));
    return Range(walk);
}

inline Map::Range Map::range(std::string_view from, std::optional<std::string_view> to) const {
    EbbtideIterator *walk = nullptr;
    const char *start = from.data() ? from.data() : "";
    const char *end = !to ? nullptr : to->data() ? to->data() : "";
    const std::size_t end_bytes = to ? to->size() : 0;
    detail::check(ebbtide_map_iterate(map_.get(), start, from.size(), end, end_bytes, &walk));
    return Range(walk);
}

// Returns the default options of a store, with this DRAM budget and room for keys and values.
inline EbbtideStoreOptions store_options(std::uint64_t dram_bytes = 0, std::uint64_t bytes = 0) {
    EbbtideStoreOptions options{};
    options.size = sizeof options;
    options.dram_bytes = dram_bytes;
    options.bytes = bytes;
    return options;
}

// Maps by name in a file. Any thread may use it.
//
// The destructor closes it.
class Store {
public:
    // Opens the store in a file and recovers it, or creates it.
    static Store open(const std::string &path,
                      const EbbtideStoreOptions &options = store_options()) {
        EbbtideStore *store = nullptr;
        detail::check(ebbtide_store_open(path.c_str(), &options, &store));
        return Store(store);
    }

    // Finds the map with this name, or makes an empty one.
    Map map(const std::string &name) const { return named(name, false); }

    // As `map`, with keys in the order of their bytes.
    Map ordered_map(const std::string &name) const { return named(name, true); }

    // Raises the room for keys and values.
    void grow(std::uint64_t bytes) const { detail::check(ebbtide_store_grow(store_.get(), bytes)); }

    // Waits until all calls have ended and closes the store.
    //
    // Throws an error that the destructor would ignore.
    void close() {
        const EbbtideCode code = ebbtide_store_close(store_.get());
        if (code != EBBTIDE_MISPLACED) static_cast<void>(store_.release());
        detail::check(code);
    }

private:
    struct Close {
        void operator()(EbbtideStore *store) const noexcept { ebbtide_store_close(store); }
    };
    explicit Store(EbbtideStore *store) : store_(store) {}

    Map named(const std::string &name, bool ordered) const {
        EbbtideMap *map = nullptr;
        detail::check(ebbtide_map(store_.get(), name.c_str(), ordered, &map));
        return Map(map);
    }

    std::unique_ptr<EbbtideStore, Close> store_;
};

} // namespace ebbtide

#endif
