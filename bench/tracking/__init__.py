"""W&B as a mirror of finished runs: everything is replayed from rows, nothing is read back into them."""
