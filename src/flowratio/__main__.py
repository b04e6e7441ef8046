"""`python -m flowratio` is the command line."""

from __future__ import annotations

from flowratio.cli.app import main

if __name__ == "__main__":
    main()
