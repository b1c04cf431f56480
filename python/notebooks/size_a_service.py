# %% [markdown]
# # How much DRAM does this service need?
#
# A trace of the program's accesses says how often it would miss with any size of DRAM. The models of a miss say what
# that does to the tail.
# %%
import numpy as np

import ebbtide

random = np.random.default_rng(1)
pages = random.zipf(1.2, 200_000) % 20_000
trace = ebbtide.Trace.from_arrays(
    pages * 4096 + random.integers(0, 64, pages.size) * 64, writes=random.random(pages.size) < 0.1
)
trace.info().accesses
# %%
curves = ebbtide.mrc(trace=trace, policies=["clock", "s3-fifo"], progress=False)
curves.plot()
# %%
sized = ebbtide.size(trace=trace, job="10us", slo="5ms", load=0.5, machine="published", progress=False)
sized
# %%
table = sized.to_polars()
table.select("design", "need.dram_bytes", "need.dram_share", "need.throughput_kept")
# %%
assert sized.recommended in table["design"].to_list()
lru = curves.to_polars().filter(curves.to_polars()["policy"] == "lru")
assert lru["miss_ratio"].is_sorted(descending=True)
