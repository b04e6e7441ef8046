"""Stage 2: x ↔ scaled x, with the log-determinant."""
