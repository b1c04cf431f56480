// Containers of the standard library in a mapped region that is larger than DRAM.

#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "ebbtide_region.hpp"

namespace {

using Map = std::pmr::unordered_map<std::pmr::string, std::pmr::string>;

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
    refuse(arguments[1]);
    try {
        region.run([&] { return region.allocate(64 << 20) != nullptr; });
        require(false, "more than the region was allocated");
    } catch (const std::bad_alloc &) {
    }
    std::puts("containers worked in a region");
}
