"""How time and memory grow with the number of rows.

Claims: the time per row of `FlowFeaturizer.fit`, with 2 passes and batches of 256, differs by less than 1.5 × from 10⁴
to 10⁶ rows. zuko's plain loop is the comparison. `transform` of 10⁶ × 20 rows adds under 500 MB to the memory of the
input. One pass over a Parquet file of 5 M × 20 rows stays under 2 GB of resident memory. Each memory is the peak of a
separate process. One thread. Cost: about 6 minutes, and 0.9 GB of temporary disk.
Command: python benchmarks/growth.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import zuko
from _memory import resident_mb
from _timing import one_thread, versions
from sklearn.exceptions import ConvergenceWarning

from flowratio import FlowFeaturizer

D, HIDDEN, BATCH, PASSES = 10, (64, 64), 256, 2


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).standard_normal((n, d))
    X[n // 2 :] += 1.0
    return X


def fit_seconds(n: int) -> float:
    X = rows(n, D)
    featurizer = FlowFeaturizer(hidden=HIDDEN, batch_size=BATCH, max_epochs=PASSES, patience=PASSES, random_state=0)
    start = time.perf_counter()
    featurizer.fit(X)
    return time.perf_counter() - start


def zuko_seconds(n: int) -> float:
    X = rows(n, D)
    flow = zuko.flows.MAF(D, transforms=5, hidden_features=HIDDEN)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    start = time.perf_counter()
    scaled = torch.from_numpy((X - X.mean(0)) / X.std(0)).float()
    for _ in range(PASSES):
        for x in scaled[torch.randperm(n)].split(BATCH):
            optimizer.zero_grad()
            (-flow().log_prob(x).mean()).backward()
            optimizer.step()
    return time.perf_counter() - start


def time_growth() -> None:
    fit_seconds(2_000)  # warm up
    per_row = {}
    for n in (10_000, 100_000, 1_000_000):
        per_row[n] = fit_seconds(n) / n
        print(f"fit, {n:>9,} rows: {1e6 * per_row[n]:6.1f} µs a row at {PASSES} passes")
    print(f"largest over smallest: {max(per_row.values()) / min(per_row.values()):.2f} (target: 1.5)")
    peer = zuko_seconds(10_000) / 10_000
    print(f"zuko's plain loop, 10 000 rows: {1e6 * peer:.1f} µs per row, ours / zuko's {per_row[10_000] / peer:.2f}")


def transform_memory() -> None:
    """Print the memory that `transform` adds. Run this in a separate process."""
    X = rows(1_000_000, 20)
    featurizer = FlowFeaturizer(max_epochs=1, random_state=0).fit(X[:20_000])
    featurizer.transform(X[:1000])
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident_mb("VmRSS")
    Z = featurizer.transform(X)
    added = resident_mb("VmHWM") - before
    print(f"transform of 10⁶ × 20 rows: {added:.0f} MB added, {Z.nbytes / 2**20:.0f} of them z (target: 500)")


def parquet_memory(path: str) -> None:
    """Print the resident memory of a pass over a large file. Run this in a separate process."""
    start = time.perf_counter()
    FlowFeaturizer(hidden=HIDDEN, batch_size=1024, max_epochs=1, random_state=0).fit(path)
    seconds, size = time.perf_counter() - start, Path(path).stat().st_size / 2**20
    print(f"fit from a Parquet file of 5 M × 20 rows ({size:.0f} MB): {seconds:.0f} s")
    print(f"peak of resident memory: {resident_mb('VmHWM'):.0f} MB (target: 2048)")


def write_parquet(path: Path, n: int = 5_000_000, d: int = 20, group: int = 250_000) -> None:
    names = [f"x{i}" for i in range(d)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, n, group):
            writer.write_table(pa.table(dict(zip(names, rows(group, d, start).T, strict=True))))


def main() -> None:
    print(versions())
    time_growth()
    this = [sys.executable, __file__]
    subprocess.run([*this, "transform"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path)
        subprocess.run([*this, "parquet", str(path)], check=True)


if __name__ == "__main__":
    one_thread()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of passes is the point
    if sys.argv[1:2] == ["transform"]:
        transform_memory()
    elif sys.argv[1:2] == ["parquet"]:
        parquet_memory(sys.argv[2])
    else:
        main()
