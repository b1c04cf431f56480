// Maps of bytes from C++: views, updates that throw, and ranges.
#include <ebbtide.hpp>
#include <iostream>
#include <vector>

#define CHECK(holds) \
    if (!(holds)) throw std::runtime_error("not so: " #holds)

int main(int count, char **arguments) try {
    CHECK(count == 2);
    auto store = ebbtide::Store::open(arguments[1], ebbtide::store_options(8 << 20, 4 << 20));
    const auto users = store.map("users");
    users.set("ada", "Lovelace");
    CHECK(users.get("ada") == "Lovelace" && !users.get("grace"));
    for (int visit = 0; visit < 3; visit++)
        CHECK(users.update("visits", [visit](auto old) {
            CHECK(old.value_or("").size() == static_cast<std::size_t>(visit));
            return std::optional(std::string(old.value_or("")) + "+");
        }));
    CHECK(users.get("visits") == "+++");
    try {
        users.update("visits", [](std::optional<std::string_view>) -> std::optional<std::string> {
            throw std::out_of_range("no more");
        });
        CHECK(false);
    } catch (const std::out_of_range &thrown) {
        CHECK(std::string(thrown.what()) == "no more");
    }
    CHECK(users.get("visits") == "+++");
    users.update("ada", [](auto) -> std::optional<std::string> { return std::nullopt; });
    CHECK(users.count() == 1 && users.remove("visits") && !users.remove("visits"));

    const auto days = store.ordered_map("days");
    for (const char *day : {"2026-04-01", "2026-03-09", "2026-03-01"}) days.set(day, "a day");
    std::vector<std::string> march;
    for (const auto &[day, value] : days.range("2026-03", "2026-04")) {
        CHECK(value == "a day");
        march.emplace_back(day);
    }
    CHECK((march == std::vector<std::string>{"2026-03-01", "2026-03-09"}));
    std::size_t all = 0;
    for (const auto &pair : days.all()) all += pair.first.size();
    CHECK(all == 30);
    store.grow(8 << 20);
    try {
        store.map("days");
        CHECK(false);
    } catch (const ebbtide::Error &error) {
        CHECK(error.code() == EBBTIDE_INPUT);
    }
    store.close();
    std::cout << "maps had views\n";
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
