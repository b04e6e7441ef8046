"""Speed and memory of scoring a file, compared with a bare loop, and the start time of the command line.

Claims: `score_file` reaches 0.6 × the rows per second of a bare loop, or more, on a Parquet file of 5 M × 20 rows
(float32, row groups of 250 000). It stays under 1.5 GB of resident memory, with 1 M rows and with 5 M. `flowratio
--help` takes less than 0.5 s.

All run the network of one `NetworkRatio("mlp")`. The bare loop reads batches of 65 536 rows by pyarrow, stacks them to
a float32 matrix and standardizes it in place. It runs the network once for each batch under `torch.inference_mode`. It
writes the 20 columns, log r and r, both float64, by the same Parquet writer with the same settings.

The bare loop does less. It has one pass, so its weights do not have mean 1. It does not check values, does not record
log r to resume after a kill, and does not replace the file as a whole. It runs the network in float32, and the library
runs it in float64. A second bare loop, in float64, shows the cost of that. Each run is a separate process, with as many
threads as the libraries take. Methods alternate, and the best of three runs counts. Seconds do not include imports and
loading of the model.

Cost: about 6 minutes on two cores, and 2.5 GB of temporary disk.
Command: python benchmarks/scoring.py, or with `files --rows 200000 --rounds 1`, or with `startup`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from _memory import resident_mb
from _tables import print_table, verdict
from _timing import versions
from sklearn.exceptions import ConvergenceWarning

from flowratio import NetworkRatio, load, save
from flowratio.storage.scoring import score_file

D, BATCH, GROUP = 20, 65_536, 250_000
NAMES = [f"x{j}" for j in range(1, D + 1)]
SHARE, MEMORY_MB, STARTUP = 0.6, 1536, 0.5  # what is to be reached


def blocks(n: int) -> Iterator[np.ndarray]:
    for start in range(0, n, GROUP):
        yield np.random.default_rng(start).standard_normal((min(GROUP, n - start), D), dtype=np.float32)


def write_rows(path: Path, n: int) -> None:
    with pq.ParquetWriter(path, pa.schema([(name, pa.float32()) for name in NAMES])) as writer:
        for block in blocks(n):
            writer.write_table(pa.table(dict(zip(NAMES, block.T, strict=True))))


def save_model(folder: Path) -> None:
    X = next(blocks(20_000))
    X[:10_000] += 0.3
    P, Q = (pl.DataFrame(part, schema=NAMES) for part in (X[:10_000], X[10_000:]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its speed is the point
        save(NetworkRatio("mlp", max_epochs=3, random_state=0).fit_samples(P, Q), folder)


def score_ours(model: Any, source: Path, out: Path) -> None:
    score_file(model, source, out, batch_rows=BATCH)


def score_bare(model: Any, source: Path, out: Path, dtype: type[np.floating] = np.float32) -> None:
    network = model.network_.to(torch.float32 if dtype is np.float32 else torch.float64)
    mean, scale = model.mean_.astype(dtype), model.scale_.astype(dtype)
    file = pq.ParquetFile(source)
    schema = file.schema_arrow.append(pa.field("log_ratio", pa.float64())).append(pa.field("weight", pa.float64()))
    with torch.inference_mode(), pq.ParquetWriter(out, schema, use_dictionary=False) as writer:
        for batch in file.iter_batches(BATCH):
            X = np.column_stack([column.to_numpy() for column in batch.columns]).astype(dtype, copy=False)
            X -= mean
            X /= scale
            log_r = network(torch.from_numpy(X))[:, 0].numpy().astype(np.float64)
            writer.write_table(pa.table([*batch.columns, log_r, np.exp(log_r)], schema=schema))


CONTESTANTS: dict[str, Callable[[Any, Path, Path], None]] = {
    "score_file": score_ours,
    "bare loop": score_bare,
    "bare loop, float64": partial(score_bare, dtype=np.float64),
}


def run(name: str, folder: Path) -> None:
    """Score the file once, and print seconds and the peak of resident memory. Run this in a separate process."""
    model = load(folder / "model")
    start = time.perf_counter()
    CONTESTANTS[name](model, folder / "rows.parquet", folder / f"{name}.parquet")
    print(json.dumps({"seconds": time.perf_counter() - start, "mb": resident_mb("VmHWM")}))


def fresh(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "run", name, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def compare(n: int, n_rounds: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table for a file of n rows."""
    write_rows(folder / "rows.parquet", n)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(n_rounds):
        for name, results in runs.items():
            results.append(fresh(name, folder))
    log_r = [pl.read_parquet(folder / f"{name}.parquet", columns=["log_ratio"]).to_numpy() for name in CONTESTANTS]
    off = max(float(np.abs(log_r[0] - other).max()) for other in log_r[1:])
    assert off < 1e-3, f"the results of the methods differ by {off}"
    speed = {name: n / min(result["seconds"] for result in results) for name, results in runs.items()}
    for name, results in runs.items():
        mb, share = max(result["mb"] for result in results), speed[name] / speed["bare loop"]
        reached = verdict(share >= SHARE and mb < MEMORY_MB) if name == "score_file" else ""
        yield f"{n:,}", name, f"{speed[name]:,.0f}", f"{share:.2f}", f"{mb:.0f}", reached


def compare_files(sizes: list[int], n_rounds: int) -> None:
    print(f"{versions()}. Target: {SHARE} of the bare loop's rows per second, under {MEMORY_MB} MB.")
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "model")
        rows = (row for n in sizes for row in compare(n, n_rounds, Path(folder)))
        print_table(("rows", "", "rows per second", "of the bare loop", "peak, MB", ""), rows)


def time_startup() -> None:
    command = [str(Path(sys.executable).with_name("flowratio")), "--help"]
    seconds = []
    for _ in range(6):  # the first of them fills the caches
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    best = min(seconds[1:])
    print(f"\nflowratio --help: {best:.2f} s, the best of 5 (target: {STARTUP}) {verdict(best < STARTUP)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", choices=["files", "startup"], help="all if none is named")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.section != "startup":
        compare_files(arguments.rows, arguments.rounds)
    if arguments.section != "files":
        time_startup()


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
