"""Input and output: writing files safely, and the HTTP client."""
