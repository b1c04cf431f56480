// Counts words in a store on flash: `words STORE WORD...` prints the counts of all runs.
#include <ebbtide.hpp>
#include <iostream>

int main(int count, char **arguments) try {
    if (count < 2) throw std::invalid_argument("usage: words STORE WORD...");
    // 16 MiB of DRAM for everything, and room for 64 MiB of keys and values.
    auto store = ebbtide::Store::open(arguments[1], ebbtide::store_options(16 << 20, 64 << 20));
    const auto words = store.ordered_map("words");
    for (int n = 2; n < count; n++)
        words.update(arguments[n], [](std::optional<std::string_view> old) {
            const int before = old ? std::stoi(std::string(*old)) : 0;
            return std::optional(std::to_string(before + 1));
        });
    for (const auto &[word, times] : words.all()) std::cout << word << ' ' << times << '\n';
    store.close();
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
