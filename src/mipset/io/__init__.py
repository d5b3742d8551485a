"""Input and output: writing files safely, the HTTP client, processes, and free memory."""

LEAST_RATE = 100.0  # bytes per second, below which a server counts as failed
