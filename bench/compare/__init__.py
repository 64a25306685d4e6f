"""A new method beside all others: measured on a finished run's requests, re-using that run's cells."""
