"""Models and texts the harness runs on: found, fetched, checked by hash and kept in one cache folder."""
