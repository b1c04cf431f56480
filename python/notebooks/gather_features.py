# %% [markdown]
# # Features of a model, gathered from flash
#
# A table of features is larger than the DRAM that it gets. Each step of the training gathers a batch of rows and
# fetches the next one at the same time.
# %%
import tempfile
from pathlib import Path

import numpy as np

import ebbtide

folder = tempfile.TemporaryDirectory(dir=".")
path = Path(folder.name) / "features.npy"
random = np.random.default_rng(1)
rows, width = 100_000, 64
features = np.lib.format.open_memmap(path, "w+", np.float32, (rows, width))
features[:] = random.standard_normal((rows, width), dtype=np.float32)
features.flush()
weights = random.standard_normal(width).astype(np.float32)
labels = features @ weights
# %%
array = ebbtide.open(path, dram="4MiB")
array
# %%
learnt = np.zeros(width, np.float32)
batches = [random.integers(0, rows, 512) for _ in range(150)]
for batch, following in zip(batches, [*batches[1:], batches[0]]):
    array.prefetch(following)
    x = array[batch]
    error = x @ learnt - labels[batch]
    learnt -= 0.2 * x.T @ error / len(batch)
float(np.abs(learnt - weights).max())
# %%
array.counters()
# %%
assert np.abs(learnt - weights).max() < 0.01
assert array.counters()["misses"] > 0
array.close()
folder.cleanup()
