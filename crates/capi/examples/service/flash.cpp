// A key-value service on flash: `flash PORT FILE`. A client sends lines: SET KEY VALUE, GET KEY, DEL KEY.
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <ebbtide_region.hpp>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>

class Service {
public:
    explicit Service(ebbtide::Region &region) : region_(region), values_(&region) {}

    std::string answer(const std::string &line) {
        return region_.run([&] { return answer_in_job(line); });
    }

private:
    using String = std::pmr::string;

    std::string answer_in_job(const std::string &line) {
        std::istringstream words(line);
        std::string verb, key, value;
        words >> verb >> key >> std::ws;
        std::getline(words, value);
        if (verb == "SET") return set(key, value);
        if (verb == "GET") return get(key);
        if (verb == "DEL") return remove(key);
        return "expected SET, GET or DEL";
    }

    std::string set(const std::string &key, const std::string &value) {
        std::unique_lock lock(mutex_);
        values_[String(key)] = value;
        return "OK";
    }

    std::string get(const std::string &key) {
        std::shared_lock lock(mutex_);
        const auto at = values_.find(String(key));
        return at == values_.end() ? "none" : std::string(at->second);
    }

    std::string remove(const std::string &key) {
        std::unique_lock lock(mutex_);
        return values_.erase(String(key)) ? "OK" : "none";
    }

    ebbtide::Region &region_;
    ebbtide::SharedMutex mutex_;
    std::pmr::unordered_map<String, String> values_;
};

// Answers the lines of a client until it leaves.
void serve(Service &service, int client) {
    std::string received, answers;
    char buffer[4096];
    for (ssize_t got; (got = read(client, buffer, sizeof buffer)) > 0;) {
        received.append(buffer, static_cast<std::size_t>(got));
        std::size_t begin = 0;
        answers.clear();
        for (std::size_t end; (end = received.find('\n', begin)) != std::string::npos;) {
            answers += service.answer(received.substr(begin, end - begin)) + '\n';
            begin = end + 1;
        }
        received.erase(0, begin);
        for (std::size_t sent = 0; sent < answers.size();) {
            const ssize_t part = write(client, answers.data() + sent, answers.size() - sent);
            if (part < 0) return;
            sent += static_cast<std::size_t>(part);
        }
    }
}

int main(int count, char **arguments) {
    const int port = count > 1 ? std::atoi(arguments[1]) : 0;
    // 1 GiB of data, and 64 MiB of DRAM for everything.
    static ebbtide::Region region(count > 2 ? arguments[2] : "service.ebb", 1ull << 30,
                                  ebbtide::options(64ull << 20));
    static Service service(region);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto *at = reinterpret_cast<sockaddr *>(&address);
    if (bind(listener, at, size) || listen(listener, 64) || getsockname(listener, at, &size)) {
        std::perror("cannot listen");
        return 1;
    }
    std::printf("port %d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    for (;;) {
        const int client = accept(listener, nullptr, nullptr);
        if (client < 0) continue;
        std::thread([client] {
            serve(service, client);
            close(client);
        }).detach();
    }
}
