// Exceptions of jobs and of calls, and the places where no call may be made.
#include <cstdlib>
#include <ebbtide.hpp>
#include <iostream>
#include <thread>
#include <unistd.h>
#include <vector>

#define CHECK(holds) \
    do { \
        if (!(holds)) { \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " << #holds << "\n"; \
            std::abort(); \
        } \
    } while (0)

namespace {

using ebbtide::Memory;

constexpr std::uint64_t bytes = 4 << 20;

// A callback of the C interface must not throw.
using MayThrow = std::int32_t (*)(EbbtideMemory *, void *);
using NeverThrows = std::int32_t (*)(EbbtideMemory *, void *) noexcept;
using Submit = decltype(&ebbtide_submit);
using Transaction = decltype(&ebbtide_transaction);
template <class Work>
constexpr bool is_a_job =
    std::is_invocable_v<Submit, const EbbtideEngine *, Work, void *, EbbtideTicket **>;
template <class Work>
constexpr bool is_a_body =
    std::is_invocable_v<Transaction, EbbtideMemory *, Work, void *, std::uint64_t *>;
static_assert(is_a_job<NeverThrows> && is_a_body<NeverThrows>);
static_assert(!is_a_job<MayThrow> && !is_a_body<MayThrow>);

template <class Work> EbbtideCode code_of(Work &&work) {
    try {
        work();
    } catch (const ebbtide::Error &error) {
        CHECK(error.what()[0] != 0);
        return error.code();
    }
    return EBBTIDE_OK;
}

// The destructor stores to a page that is on flash, also during unwinding.
struct StoresAtItsEnd {
    Memory memory;
    std::uint64_t at;
    ~StoresAtItsEnd() { memory.store(at, 9); }
};

void jobs_that_throw(const ebbtide::Engine &engine) {
    auto thrower = engine.submit([](Memory memory) {
        memory.store(8, 1);
        throw std::logic_error("thrown by a job");
    });
    bool caught = false;
    try {
        thrower.wait();
    } catch (const std::logic_error &error) {
        caught = std::string(error.what()) == "thrown by a job";
    }
    CHECK(caught);
    CHECK(code_of([&] { thrower.wait(); }) == EBBTIDE_INPUT);
    // The job and what it holds may outlive the ticket, and need not be copied.
    auto owned = std::make_unique<int>(3);
    { auto dropped = engine.submit([owned = std::move(owned)](Memory m) { m.store(0, *owned); }); }
    CHECK(engine.submit([](Memory memory) { return memory.load(8); }).wait() == 1);
    CHECK(code_of([&] { engine.submit([](Memory memory) { memory.load(3); }).wait(); }) ==
          EBBTIDE_INPUT);
}

void no_call_in_a_catch_block(const ebbtide::Engine &engine) {
    const bool refused = engine
                             .submit([](Memory memory) {
                                 try {
                                     throw 1;
                                 } catch (int) {
                                     return code_of([&] { memory.load(0); }) == EBBTIDE_MISPLACED;
                                 }
                             })
                             .wait();
    CHECK(refused);
}

// Jobs are suspended while they unwind, and others throw and catch on the same thread.
void destructors_may_wait(const std::string &path) {
    auto options = ebbtide::options(2 << 20);
    const auto engine = ebbtide::Engine::create(path, ebbtide::new_store(bytes), options);
    std::vector<ebbtide::Ticket<int>> tickets;
    for (std::uint64_t n = 0; n < 400; n++) {
        tickets.push_back(engine.submit([n](Memory memory) {
            const std::uint64_t at = n * 40960 % bytes + 64;
            memory.store(at, 0);
            try {
                StoresAtItsEnd stores{memory, (at + bytes / 2) % bytes};
                throw static_cast<int>(n);
            } catch (int number) {
                CHECK(std::uncaught_exceptions() == 0);
                return number;
            }
        }));
    }
    for (int n = 0; n < 400; n++) CHECK(tickets[static_cast<std::size_t>(n)].wait() == n);
    CHECK(engine.counters().misses > 100);
}

void transactions_that_throw(const ebbtide::Engine &engine) {
    engine
        .submit([](Memory memory) {
            const auto lsn = memory.transaction([](Memory memory) { memory.store(0, 70); });
            memory.durable(lsn);
            bool caught = false;
            try {
                memory.transaction([](Memory memory) {
                    memory.store(0, 71);
                    memory.transaction([](Memory) { throw std::out_of_range("in the inner one"); });
                });
            } catch (const std::out_of_range &error) {
                caught = std::string(error.what()) == "in the inner one";
            }
            CHECK(caught);
            CHECK(memory.load(0) == 70);
            CHECK(code_of([&] {
                      memory.transaction([](Memory memory) { memory.load(bytes); });
                  }) == EBBTIDE_INPUT);
            // A body that catches an error of the device is not committed either.
            std::vector<char> much(100 << 10);
            CHECK(code_of([&] {
                      memory.transaction([&](Memory memory) {
                          code_of([&] { memory.write(0, much.data(), much.size()); });
                      });
                  }) == EBBTIDE_INPUT);
            CHECK(memory.load(0) == 70);
        })
        .wait();
}

void several_threads(const ebbtide::Engine &engine) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++) {
        threads.emplace_back([&engine] {
            for (std::uint64_t n = 0; n < 100; n++) {
                auto ticket = engine.submit([n](Memory memory) {
                    return memory.typed_map("counts", 1000).add(memory, n, 1);
                });
                CHECK(ticket.wait() >= 1);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    engine
        .submit([](Memory memory) {
            const auto counts = memory.typed_map("counts", 1000);
            for (std::uint64_t n = 0; n < 100; n++) CHECK(counts.get(memory, n) == 4u);
            CHECK(counts.count(memory) == 100);
            CHECK(counts.remove(memory, 5) && !counts.remove(memory, 5));
            CHECK(!counts.get(memory, 5));
        })
        .wait();
}

// A value of 12 bytes, which is not a whole number of words.
struct Reading {
    float degrees;
    std::int32_t place;
    std::uint16_t year, day;
};

void typed_maps(const ebbtide::Engine &engine) {
    const auto wrong = engine
                           .submit([](Memory memory) {
                               const auto readings = memory.typed_map<Reading>("readings", 100);
                               readings.set(memory, 7, {21.5F, -3, 2026, 328});
                               const auto letters = memory.typed_map<char>("letters", 100);
                               letters.set(memory, 1, 'x');
                               CHECK(letters.get(memory, 1) == 'x');
                               return code_of([&] { memory.typed_map<Reading>("letters", 100); });
                           })
                           .wait();
    CHECK(wrong == EBBTIDE_INPUT);
    engine
        .submit([](Memory memory) {
            const auto readings = memory.typed_map<Reading>("readings", 100);
            const auto there = readings.get(memory, 7);
            CHECK(there && there->degrees == 21.5F && there->place == -3);
            CHECK(there->year == 2026 && there->day == 328);
            CHECK(!readings.get(memory, 8) && readings.count(memory) == 1);
            CHECK(readings.remove(memory, 7) && !readings.get(memory, 7));
        })
        .wait();
}

void device_errors(const std::string &path) {
    auto options = ebbtide::options(1800 << 10);
    auto engine = ebbtide::Engine::create(path, ebbtide::new_store(bytes), options);
    engine
        .submit([](Memory memory) {
            for (std::uint64_t at = 0; at < bytes; at += 4096) memory.store(at, at);
        })
        .wait();
    CHECK(truncate(path.c_str(), 4096) == 0);
    const auto failed = engine
                            .submit([](Memory memory) {
                                int failed = 0;
                                for (std::uint64_t at = 0; at < bytes; at += 4096)
                                    failed += code_of([&] { memory.load(at); }) == EBBTIDE_FAILED;
                                return failed;
                            })
                            .wait();
    CHECK(failed > 0);
    engine.close();
    CHECK(code_of([&] { engine.submit([](Memory) {}); }) == EBBTIDE_INPUT);
}

} // namespace

int main(int count, char **arguments) {
    CHECK(count == 2);
    const std::string path = arguments[1];
    CHECK(code_of([&] { ebbtide::Engine::open(path, ebbtide::options(1 << 20)); }) == EBBTIDE_INPUT);
    {
        const auto store = ebbtide::new_store(bytes, 1 << 20);
        const auto engine = ebbtide::Engine::create(path, store, ebbtide::options(4 << 20));
        jobs_that_throw(engine);
        no_call_in_a_catch_block(engine);
    }
    unlink(path.c_str());
    {
        const auto store = ebbtide::new_store(bytes, 1 << 20);
        auto engine = ebbtide::Engine::create(path, store, ebbtide::options(8 << 20));
        several_threads(engine);
        typed_maps(engine);
    }
    unlink(path.c_str());
    {
        const auto store = ebbtide::new_store(bytes, 1 << 20);
        auto engine = ebbtide::Engine::create(path, store, ebbtide::options(4 << 20));
        transactions_that_throw(engine);
    }
    destructors_may_wait(path + ".extend");
    unlink((path + ".extend").c_str());
    device_errors(path + ".extend");
    unlink((path + ".extend").c_str());
    std::cout << "exceptions were right\n";
}
