# %% [markdown]
# # Which design for this program?
#
# Every published design gets the same cores, data, DRAM and work. The simulator runs the program's real code in
# virtual time.
# %%
import ebbtide

SMALL = {"cores.count": 4}
compared = ebbtide.compare("hash-table", set=SMALL, scale="1/1024", jobs=1000, progress=False)
compared.plot()
# %%
frame = compared.to_polars()
frame.select("design", "ratio_to_dram", "p99_us", "price.dollars").sort(
    "ratio_to_dram", descending=True
)
# %% [markdown]
# How does AstriFlash depend on the number of user-level threads? A sweep runs all combinations on all cores.
# %%
sweep = ebbtide.Sweep(
    workload="hash-table",
    scale="1/1024",
    jobs=1000,
    set={**SMALL, "switch.threads": [2, 8, 32]},
)
swept = sweep.run(progress=False)
swept.to_polars().select("switch.threads", "ratio_to_dram", "service_ns.p99")
# %%
assert frame.filter(frame["design"] == "dram-only")["ratio_to_dram"].item() == 1.0
ratios = swept.to_polars().sort("switch.threads")["ratio_to_dram"]
assert ratios[2] > ratios[0]
