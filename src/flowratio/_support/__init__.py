"""What every stage uses: checks of arguments, progress bars, atomic writes, lazy imports."""
