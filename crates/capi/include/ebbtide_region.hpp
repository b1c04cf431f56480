// Mapped regions for C++17: existing containers with their data on flash.
//
// docs/MAPPED.md has the rules, and ebbtide.h describes each call.

#ifndef EBBTIDE_REGION_HPP
#define EBBTIDE_REGION_HPP

#include <atomic>
#include <memory_resource>
#include <new>

#include "ebbtide.hpp"

namespace ebbtide {

namespace detail {

// A job of a region and its outcome.
template <class T, class Job> struct RegionJob : Outcome<T> {
    explicit RegionJob(Job &&job) : job(std::move(job)) {}
    std::optional<Job> job;

    static std::int32_t run(void *argument) noexcept {
        using Held = std::shared_ptr<RegionJob>;
        const std::unique_ptr<Held> held(static_cast<Held *>(argument));
        RegionJob &own = **held;
        try {
            if constexpr (std::is_void_v<T>) {
                (*own.job)();
            } else {
                own.value.emplace((*own.job)());
            }
        } catch (...) {
            own.thrown = std::current_exception();
        }
        own.job.reset();
        return 0;
    }
};

} // namespace detail

// A range of addresses whose pages come from flash, with a heap over it.
//
// It is a memory resource: `std::pmr` containers with `&region` as their resource have their data on
// flash. The destructor closes it, and its contents are lost then.
class Region : public std::pmr::memory_resource {
public:
    // Makes a region of `bytes` bytes, whose pages lie in the file at `path`.
    Region(const std::string &path, std::uint64_t bytes, const EbbtideOptions &options) {
        EbbtideRegion *region = nullptr;
        detail::check(ebbtide_region_create(path.c_str(), bytes, &options, &region));
        region_.reset(region);
    }

    // Submits `job()`. In it, a load or store of a page that is not in DRAM lets other jobs run.
    //
    // Any thread may submit, but not from inside a job.
    template <class Job> auto submit(Job job) const -> Ticket<std::invoke_result_t<Job &>> {
        using T = std::invoke_result_t<Job &>;
        using Submitted = detail::RegionJob<T, Job>;
        auto submitted = std::make_shared<Submitted>(std::move(job));
        auto held = std::make_unique<std::shared_ptr<Submitted>>(submitted);
        EbbtideTicket *ticket = nullptr;
        detail::check(ebbtide_region_submit(region_.get(), Submitted::run, held.get(), &ticket));
        // The job owns it now.
        static_cast<void>(held.release());
        return Ticket<T>(ticket, std::move(submitted));
    }

    // Runs `job()` and returns its result.
    template <class Job> auto run(Job job) const { return submit(std::move(job)).wait(); }

    // Announces an access to `at`, a load or a store. For hot places of a program.
    void touch(const void *at, bool store = false) const noexcept {
        ebbtide_region_touch(region_.get(), at, store);
    }

    const EbbtideRegion *handle() const noexcept { return region_.get(); }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *at = ebbtide_region_aligned_alloc(region_.get(), alignment, bytes);
        if (!at) throw std::bad_alloc();
        return at;
    }
    void do_deallocate(void *at, std::size_t, std::size_t) override {
        ebbtide_region_free(region_.get(), at);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    struct Close {
        void operator()(EbbtideRegion *region) const noexcept { ebbtide_region_close(region); }
    };
    std::unique_ptr<EbbtideRegion, Close> region_;
};

// Bytes of a region that stay in DRAM while this lives, for a system call.
class Pinned {
public:
    // With `store`, the system call may also write to them.
    Pinned(const Region &region, const void *at, std::size_t bytes, bool store) {
        EbbtidePinned *pinned = nullptr;
        detail::check(ebbtide_region_pin(region.handle(), at, bytes, store, &pinned));
        pinned_.reset(pinned);
    }

private:
    struct Unpin {
        void operator()(EbbtidePinned *pinned) const noexcept { ebbtide_region_unpin(pinned); }
    };
    std::unique_ptr<EbbtidePinned, Unpin> pinned_;
};

// A lock for jobs, with `std::unique_lock` and `std::shared_lock`.
//
// A job that waits lets other jobs run, so its holder may use regions. A writer that waits goes
// before later readers.
class SharedMutex {
public:
    void lock() noexcept {
        while (!enter(~WAITS, WRITER)) {
            state_.fetch_or(WAITS, std::memory_order_relaxed);
            ebbtide_let_others_run();
        }
    }
    bool try_lock() noexcept { return enter(~WAITS, WRITER); }
    void unlock() noexcept { state_.fetch_and(~WRITER, std::memory_order_release); }

    void lock_shared() noexcept {
        while (!try_lock_shared()) ebbtide_let_others_run();
    }
    bool try_lock_shared() noexcept {
        std::uint32_t state = state_.load(std::memory_order_relaxed);
        while (!(state & (WRITER | WAITS)))
            if (exchange(state, state + 1)) return true;
        return false;
    }
    void unlock_shared() noexcept { state_.fetch_sub(1, std::memory_order_release); }

private:
    // A writer holds the lock, or one waits. The other bits are the number of readers.
    static constexpr std::uint32_t WRITER = 1u << 31, WAITS = 1u << 30;

    // Sets the state to `entered` if none of the bits `busy` is set.
    bool enter(std::uint32_t busy, std::uint32_t entered) noexcept {
        std::uint32_t state = state_.load(std::memory_order_relaxed);
        while (!(state & busy))
            if (exchange(state, entered)) return true;
        return false;
    }
    bool exchange(std::uint32_t &seen, std::uint32_t next) noexcept {
        return state_.compare_exchange_weak(seen, next, std::memory_order_acquire,
                                            std::memory_order_relaxed);
    }

    std::atomic<std::uint32_t> state_{0};
};

// While it lives, a miss of this job blocks its core. Hold it around a foreign lock.
class NoSwitch {
public:
    NoSwitch() noexcept { ebbtide_no_switch_begin(); }
    ~NoSwitch() { ebbtide_no_switch_end(); }
    NoSwitch(const NoSwitch &) = delete;
    NoSwitch &operator=(const NoSwitch &) = delete;
};

} // namespace ebbtide

#endif
