// Orders and stock on flash from C++: an order takes its goods in one transaction, or throws.
//
//     c++ -std=c++17 -o orders orders.cpp $(pkg-config --cflags --libs ebbtide) && ./orders orders.store
#include <cstdio>
#include <ebbtide.hpp>
#include <iostream>
#include <vector>

namespace {

constexpr std::uint64_t goods = 50, pieces = 30, orders = 2000;

struct SoldOut : std::runtime_error {
    SoldOut() : std::runtime_error("sold out") {}
};

// Runs on a stack of its own; other orders run while it waits for flash.
std::uint64_t order(ebbtide::Memory memory, std::uint64_t number) {
    memory.transaction([number](ebbtide::Memory memory) {
        const auto stock = memory.map("stock", goods), sold = memory.map("sold", goods);
        const std::uint64_t good = number * 31 % goods;
        const std::uint64_t left = stock.get(memory, good).value_or(0);
        if (left == 0) throw SoldOut();
        stock.set(memory, good, left - 1);
        sold.add(memory, good, 1);
    });
    return number;
}

} // namespace

int main(int count, char **arguments) try {
    const std::string path = count > 1 ? arguments[1] : "orders.store";
    auto engine = ebbtide::Engine::create(path, ebbtide::new_store(16 << 20, 1 << 20),
                                          ebbtide::options(4 << 20));
    engine
        .submit([](ebbtide::Memory memory) {
            memory.transaction([](ebbtide::Memory memory) {
                const auto stock = memory.map("stock", goods);
                for (std::uint64_t good = 0; good < goods; good++) stock.set(memory, good, pieces);
            });
        })
        .wait();
    std::vector<ebbtide::Ticket<std::uint64_t>> tickets;
    for (std::uint64_t number = 0; number < orders; number++)
        tickets.push_back(engine.submit([number](ebbtide::Memory m) { return order(m, number); }));
    std::uint64_t taken = 0, refused = 0;
    for (auto &ticket : tickets) {
        try {
            ticket.wait();
            taken++;
        } catch (const SoldOut &) {
            refused++;
        }
    }
    const std::uint64_t sold = engine
                                   .submit([](ebbtide::Memory memory) {
                                       const auto sold = memory.map("sold", goods);
                                       std::uint64_t sum = 0;
                                       for (std::uint64_t good = 0; good < goods; good++)
                                           sum += sold.get(memory, good).value_or(0);
                                       return sum;
                                   })
                                   .wait();
    engine.close();
    std::cout << taken << " orders taken, " << refused << " sold out, " << sold << " pieces sold\n";
    return taken == sold && sold == goods * pieces ? 0 : 1;
} catch (const ebbtide::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
