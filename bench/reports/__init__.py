"""The HTML page of finished runs: one self-contained file, made from their folders alone."""
