"""A fit that is killed again and again, in a real process by a real signal, ends with the bits of one that is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors import safe_open

CHILD = """
import sys
from functools import partial
from pathlib import Path
import numpy as np
from flowratio import FlowFeaturizer
from flowratio.latent import featurizer

# a checkpoint after each step, so that a kill falls into the writing of one as often as not
featurizer.train = partial(featurizer.train, checkpoint_seconds=0.0)
folder, result = sys.argv[1] or None, Path(sys.argv[2])
X = np.random.default_rng(0).gamma(3.0, size=(1200, 3))
flow = FlowFeaturizer(
    scaling="gaussian", n_blocks=3, hidden=(24, 24), max_epochs=30, patience=30, random_state=7, checkpoint=folder
)
fitted = flow.fit(X)
history = fitted.history_
np.savez(
    result,
    Z=fitted.transform(X),
    losses=[history.epoch, history.train_loss, history.held_out_loss, history.learning_rate],
    **{name: value.numpy() for name, value in fitted.flow_.state_dict().items()},
)
"""
N_STEPS = 30 * round(1080 / 64)


def start(folder: Path | None, result: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore::sklearn.exceptions.ConvergenceWarning", "-c", CHILD]
    arguments = ["" if folder is None else str(folder), str(result)]
    return subprocess.Popen([*command, *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"})


def n_steps_kept(folder: Path) -> int:
    """Number of steps in the checkpoint: it is whole at any time, or not there yet."""
    path = folder / "checkpoint.entry.safetensors"
    if not path.exists():
        return 0
    with safe_open(path, framework="numpy") as file:
        return int(json.loads(file.metadata()["value"])["n_steps"])


def test_a_fit_killed_at_three_random_moments_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    undisturbed = start(None, whole)
    folder, result = tmp_path / "run", tmp_path / "result.npz"
    moments = np.sort(np.random.default_rng().integers(1, int(0.8 * N_STEPS), 3))  # new ones each time
    for moment in moments:
        process = start(folder, result)
        while n_steps_kept(folder) < moment and process.poll() is None:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, f"the run was over before the kill (moments {moments})"
        assert moment <= n_steps_kept(folder) < N_STEPS
        assert not result.exists()
    assert start(folder, result).wait() == 0
    assert undisturbed.wait() == 0
    with np.load(whole) as expected, np.load(result) as arrays:
        assert expected.keys() == arrays.keys()
        for name in expected:
            assert np.array_equal(expected[name], arrays[name]), f"{name} differs (moments {moments})"
