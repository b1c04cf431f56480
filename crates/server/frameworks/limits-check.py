"""Rate limits of `limits`: fixed and moving windows, which are scripts."""

import sys

from limits import parse, storage, strategies

store = storage.storage_from_string(f"redis://127.0.0.1:{sys.argv[1]}")
for strategy in (
    strategies.FixedWindowRateLimiter,
    strategies.MovingWindowRateLimiter,
    strategies.SlidingWindowCounterRateLimiter,
):
    limiter, rate = strategy(store), parse("3/minute")
    hits = [limiter.hit(rate, strategy.__name__, "client") for _ in range(5)]
    assert hits == [True, True, True, False, False], (strategy, hits)
    assert limiter.get_window_stats(rate, strategy.__name__, "client").remaining == 0
print("fixed, moving and sliding windows refuse the fourth hit of three")
