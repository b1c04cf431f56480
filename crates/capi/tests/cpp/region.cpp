// Containers of the standard library in a mapped region that is larger than DRAM.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <sys/socket.h>
#include <unordered_map>
#include <vector>

#include "ebbtide_region.hpp"

namespace {

using Map = std::pmr::unordered_map<std::pmr::string, std::pmr::string>;

// A callback of the C interface must not throw.
template <class Work>
constexpr bool is_a_job =
    std::is_invocable_v<decltype(&ebbtide_region_submit), const EbbtideRegion *, Work, void *,
                        EbbtideTicket **>;
static_assert(is_a_job<std::int32_t (*)(void *) noexcept>);
static_assert(!is_a_job<std::int32_t (*)(void *)>);

void require(bool right, const char *what) {
    if (right) return;
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

std::string key(int number) { return "key:" + std::to_string(number); }
std::string value(int number) { return std::string(100 + number % 200, 'a' + number % 26); }

void fill_and_check(ebbtide::Region &region) {
    constexpr int KEYS = 40000;
    auto map = region.run([&] {
        auto map = std::make_unique<Map>(&region);
        for (int number = 0; number < KEYS; ++number) {
            map->emplace(key(number), value(number));
        }
        return map;
    });
    std::vector<ebbtide::Ticket<int>> tickets;
    for (int part = 0; part < 8; ++part) {
        tickets.push_back(region.submit([&, part] {
            int right = 0;
            for (int number = part; number < KEYS; number += 8 * 5) {
                const std::string found = key(number);
                const auto at = map->find(std::pmr::string(found));
                right += at != map->end() && std::string_view(at->second) == value(number);
            }
            return right;
        }));
    }
    int right = 0;
    for (auto &ticket : tickets) right += ticket.wait();
    require(right == KEYS / 5, "a value was lost");
    region.run([&] { map.reset(); });
}

// Exceptions cross pages that are not in DRAM, in many jobs at once.
void throw_and_catch(ebbtide::Region &region) {
    auto *words = static_cast<volatile long *>(region.allocate(8 << 20));
    std::vector<ebbtide::Ticket<void>> tickets;
    for (int job = 0; job < 16; ++job) {
        tickets.push_back(region.submit([&, job] {
            for (int step = 0; step < 50; ++step) {
                volatile long &word = words[(job * 61 + step * 40) % 2000 * 512 + job];
                try {
                    word = word + 1;
                    throw job * 1000 + step;
                } catch (int thrown) {
                    // A miss inside a catch block lets other jobs throw as well.
                    word = word + 1;
                    words[(job * 67 + step * 31) % 2000 * 512 + 100 + job] = step;
                    require(thrown == job * 1000 + step, "an exception of another job");
                }
            }
            throw std::runtime_error("the end of " + std::to_string(job));
        }));
    }
    int job = 0;
    for (auto &ticket : tickets) {
        try {
            ticket.wait();
            require(false, "no exception came out");
        } catch (const std::runtime_error &error) {
            require(error.what() == "the end of " + std::to_string(job++), "another exception");
        }
    }
}

// Bytes go to a socket from pages that are not in DRAM, and come back to others.
void call_the_system(ebbtide::Region &region) {
    constexpr std::size_t BYTES = 4 << 20;
    auto *from = static_cast<char *>(region.allocate(BYTES));
    auto *to = static_cast<char *>(region.allocate(BYTES));
    int sockets[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no sockets");
    std::size_t moved = 0;
    region.run([&] {
        for (std::size_t at = 0; at < BYTES; ++at) from[at] = static_cast<char>(at % 251);
        const EbbtideRegion *handle = region.handle();
        while (moved < BYTES) {
            const ssize_t sent = ebbtide_region_send(handle, sockets[0], from + moved, 4096, 0);
            require(sent > 0, "not sent");
            const ssize_t got = ebbtide_region_recv(handle, sockets[1], to + moved, sent, 0);
            require(got == sent, "not received");
            moved += static_cast<std::size_t>(got);
        }
    });
    require(region.run([&] { return std::equal(from, from + BYTES, to); }), "other bytes");
    require(ebbtide_region_read(region.handle(), -1, to, 1) == -1 && errno == EBADF, "no EBADF");
    require(ebbtide_region_write(nullptr, 1, to, 1) == -1 && errno == EINVAL, "no EINVAL");
    region.deallocate(from, BYTES);
    region.deallocate(to, BYTES);
}

// Jobs change words under a lock whose holders miss.
void lock(ebbtide::Region &region) {
    auto *words = static_cast<long *>(region.allocate(16 << 20));
    region.run([&] { std::fill(words, words + (2 << 20), 0); });
    ebbtide::SharedMutex mutex;
    std::vector<ebbtide::Ticket<void>> tickets;
    for (int job = 0; job < 8; ++job) {
        tickets.push_back(region.submit([&, job] {
            for (int step = 0; step < 100; ++step) {
                const int page = (step * 397 + job % 2) % 4000;
                if (job < 6) {
                    std::unique_lock held(mutex);
                    words[page * 512] += 1;
                } else {
                    std::shared_lock held(mutex);
                    require(words[page * 512] <= 6, "too large");
                }
            }
        }));
    }
    for (auto &ticket : tickets) ticket.wait();
    const long sum = region.run([&] {
        long sum = 0;
        for (int page = 0; page < 4000; ++page) sum += words[page * 512];
        return sum;
    });
    require(sum == 600, "an addition was lost");
    require(mutex.try_lock_shared() && !mutex.try_lock(), "a reader");
    mutex.unlock_shared();
    region.deallocate(words, 16 << 20);
}

void refuse(const std::string &path) {
    try {
        ebbtide::Region region(path + ".small", 16 << 20, ebbtide::options(1 << 20));
        require(false, "a budget that is too small was taken");
    } catch (const ebbtide::Error &error) {
        require(error.code() == EBBTIDE_INPUT, "another code");
    }
}

} // namespace

int main(int, char **arguments) {
    auto options = ebbtide::options(10 << 20);
    options.threads = 16;
    options.stack_bytes = 64 << 10;
    ebbtide::Region region(arguments[1], 32 << 20, options);
    fill_and_check(region);
    throw_and_catch(region);
    call_the_system(region);
    lock(region);
    refuse(arguments[1]);
    try {
        region.run([&] { return region.allocate(64 << 20) != nullptr; });
        require(false, "more than the region was allocated");
    } catch (const std::bad_alloc &) {
    }
    std::puts("containers worked in a region");
}
