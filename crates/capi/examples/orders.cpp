// Orders and stock on flash from C++: an order takes its goods in one transaction, or throws. Two
// threads give orders.
//
//     c++ -std=c++17 -o orders orders.cpp $(pkg-config --cflags --libs ebbtide) && ./orders orders.store
#include <ebbtide.hpp>
#include <future>
#include <iostream>
#include <vector>

namespace {

constexpr std::uint64_t goods = 50, pieces = 30, orders = 2000, buyers = 2;

struct Good {
    std::uint64_t left;
    std::uint64_t sold;
};

struct SoldOut : std::runtime_error {
    SoldOut() : std::runtime_error("sold out") {}
};

ebbtide::TypedMap<Good> stock_of(ebbtide::Memory memory) {
    return memory.typed_map<Good>("stock", goods);
}

// Runs on a stack of its own; other orders run while it waits for flash.
void order(ebbtide::Memory memory, std::uint64_t number) {
    memory.transaction([number](ebbtide::Memory memory) {
        const auto stock = stock_of(memory);
        auto good = stock.get(memory, number % goods).value_or(Good{});
        if (good.left == 0) throw SoldOut();
        good.left--;
        good.sold++;
        stock.set(memory, number % goods, good);
    });
}

// Places all orders of this buyer from `first` on, and counts those that were taken.
std::uint64_t buy(const ebbtide::Engine &engine, std::uint64_t first) {
    std::vector<ebbtide::Ticket<void>> tickets;
    for (std::uint64_t number = first; number < orders; number += buyers)
        tickets.push_back(engine.submit([number](ebbtide::Memory m) { order(m, number); }));
    std::uint64_t taken = 0;
    for (auto &ticket : tickets) {
        try {
            ticket.wait();
            taken++;
        } catch (const SoldOut &) {
        }
    }
    return taken;
}

} // namespace

int main(int count, char **arguments) try {
    const std::string path = count > 1 ? arguments[1] : "orders.store";
    auto engine = ebbtide::Engine::create(path, ebbtide::new_store(16 << 20, 1 << 20),
                                          ebbtide::options(4 << 20));
    engine
        .submit([](ebbtide::Memory memory) {
            memory.transaction([](ebbtide::Memory memory) {
                const auto stock = stock_of(memory);
                for (std::uint64_t good = 0; good < goods; good++)
                    stock.set(memory, good, {pieces, 0});
            });
        })
        .wait();
    std::vector<std::future<std::uint64_t>> buying;
    for (std::uint64_t first = 0; first < buyers; first++)
        buying.push_back(std::async(std::launch::async, [&, first] { return buy(engine, first); }));
    std::uint64_t taken = 0;
    for (auto &bought : buying) taken += bought.get();
    const std::uint64_t sold = engine
                                   .submit([](ebbtide::Memory memory) {
                                       const auto stock = stock_of(memory);
                                       std::uint64_t sum = 0;
                                       for (std::uint64_t good = 0; good < goods; good++)
                                           sum += stock.get(memory, good).value_or(Good{}).sold;
                                       return sum;
                                   })
                                   .wait();
    engine.close();
    std::cout << taken << " orders taken, " << orders - taken << " sold out, " << sold
              << " pieces sold\n";
    return taken == sold && sold == goods * pieces ? 0 : 1;
} catch (const ebbtide::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
