"""Stage 5: log r = log p − log q on any space. `registry` lists the names."""
