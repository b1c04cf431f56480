// A std::pmr::unordered_map of strings under a skewed load, in a mapped region or under paging.
//
// `containers region|paging FILE DRAM KEYS`, sizes in bytes. It fills the map and prints "ready". Then each line
// "THREADS SECONDS" of its input is a window, and it prints the operations a second. A thread is a job of the region,
// or a thread of the kernel. `run.sh` compares the two.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ebbtide_region.hpp>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

using String = std::pmr::string;
using Map = std::pmr::unordered_map<String, String>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t VALUE_BYTES = 400;
constexpr std::uint64_t BYTES_EACH = 640; // of an entry with its bucket, at most
constexpr unsigned WRITES_IN_100 = 10;

// Numbers with Zipf's law of .99 (Gray et al., SIGMOD'94), of which the most frequent lie anywhere.
class Zipf {
public:
    explicit Zipf(std::uint64_t count) : count_(count) {
        for (std::uint64_t n = 1; n <= count; ++n) zeta_ += std::pow(1.0 / double(n), THETA);
        eta_ = (1 - std::pow(2.0 / double(count), 1 - THETA)) /
               (1 - (1 + std::pow(0.5, THETA)) / zeta_);
    }
    std::uint64_t operator()(double uniform) const {
        const double scaled = uniform * zeta_;
        double rank = 0;
        if (scaled >= 1 + std::pow(0.5, THETA))
            rank = double(count_) * std::pow(eta_ * uniform - eta_ + 1, 1 / (1 - THETA));
        else if (scaled >= 1)
            rank = 1;
        return std::uint64_t(rank) * 0x9e3779b97f4a7c15 % count_;
    }

private:
    static constexpr double THETA = 0.99;
    std::uint64_t count_;
    double zeta_ = 0, eta_;
};

// Memory in a file that the kernel pages. It frees nothing.
class Paged : public std::pmr::memory_resource {
public:
    Paged(const char *path, std::size_t bytes) {
        const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || ftruncate(file, off_t(bytes))) throw std::runtime_error("no file");
        void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        madvise(at, bytes, MADV_RANDOM);
        next_ = static_cast<char *>(at);
        end_ = next_ + bytes;
    }

private:
    void *do_allocate(std::size_t bytes, std::size_t) override {
        bytes = (bytes + 15) & ~std::size_t(15);
        if (bytes > std::size_t(end_ - next_)) throw std::bad_alloc();
        return std::exchange(next_, next_ + bytes);
    }
    void do_deallocate(void *, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }
    char *next_, *end_;
};

String name_of(std::uint64_t key) {
    char text[40];
    std::snprintf(text, sizeof text, "user:%020llu", static_cast<unsigned long long>(key));
    return text;
}

void fill(Map &map, std::uint64_t keys) {
    map.reserve(keys);
    const std::string value(VALUE_BYTES, 0);
    for (std::uint64_t key = 0; key < keys; ++key) map.emplace(name_of(key), value);
}

// Reads and changes values until `end`. Returns the number of operations.
std::uint64_t work(Map &map, const Zipf &zipf, std::uint64_t seed, Clock::time_point end) {
    std::uint64_t operations = 0, random = seed * 0x2545f4914f6cdd1d + 1;
    for (; Clock::now() < end; ++operations) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const auto at = map.find(name_of(zipf(double(random >> 11) / double(1ull << 53))));
        if (at == map.end()) std::abort();
        auto *count = reinterpret_cast<std::uint64_t *>(at->second.data());
        if (random % 100 < WRITES_IN_100)
            __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
        else if (__atomic_load_n(count, __ATOMIC_RELAXED) == UINT64_MAX)
            std::abort();
    }
    return operations;
}

// Runs windows as the input asks for. `run` runs so many of a function at once.
template <class Run> void serve(Map &map, const Zipf &zipf, const Run &run) {
    std::puts("ready");
    std::fflush(stdout);
    unsigned threads;
    double seconds;
    for (std::uint64_t seed = 0; std::scanf("%u %lf", &threads, &seconds) == 2;) {
        std::atomic<std::uint64_t> operations{0};
        const auto length = std::chrono::duration<double>(seconds);
        const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(length);
        run(threads, [&, end](unsigned thread) {
            operations += work(map, zipf, seed + thread + 1, end);
        });
        seed += threads;
        std::printf("%.0f\n", double(operations) / seconds);
        std::fflush(stdout);
    }
}

int main(int count, char **arguments) {
    if (count != 5) return std::fprintf(stderr, "containers region|paging FILE DRAM KEYS\n"), 2;
    const std::uint64_t keys = std::strtoull(arguments[4], nullptr, 10);
    const std::uint64_t bytes = keys * BYTES_EACH + (16 << 20);
    const Zipf zipf(keys);
    if (!std::strcmp(arguments[1], "paging")) {
        Paged paged(arguments[2], bytes);
        Map map(&paged);
        fill(map, keys);
        serve(map, zipf, [](unsigned threads, auto job) {
            std::vector<std::thread> running;
            for (unsigned thread = 0; thread < threads; ++thread) running.emplace_back(job, thread);
            for (auto &thread : running) thread.join();
        });
        return 0;
    }
    auto options = ebbtide::options(std::strtoull(arguments[3], nullptr, 10));
    options.stack_bytes = 64 << 10;
    ebbtide::Region region(arguments[2], bytes, options);
    Map map(&region);
    region.run([&] { fill(map, keys); });
    serve(map, zipf, [&](unsigned threads, auto job) {
        std::vector<ebbtide::Ticket<void>> running;
        for (unsigned thread = 0; thread < threads; ++thread)
            running.push_back(region.submit([=] { job(thread); }));
        for (auto &ticket : running) ticket.wait();
    });
    // The map's memory ends with the region; to free each block would bring every page.
    std::_Exit(0);
}
