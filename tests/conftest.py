from __future__ import annotations

import os

# Before torch is imported: the tests run in several processes, and one thread each is faster than all of them each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No window is opened by a figure.
os.environ.setdefault("MPLBACKEND", "Agg")
