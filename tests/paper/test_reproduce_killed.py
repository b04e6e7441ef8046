"""Processes of an experiment end with the one that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import os
import time

from flowratio_paper.running import _processes

if __name__ == "__main__":
    with _processes(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at as Linux shows them")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_a_process_does_not_outlive_the_one_that_was_killed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.send_signal(getattr(signal, how))
        parent.wait(60)
        deadline = time.monotonic() + 60
        while _is_alive(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _is_alive(worker)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"  # a zombie has ended
    except FileNotFoundError:
        return False
