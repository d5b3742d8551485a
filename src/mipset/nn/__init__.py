"""Networks, and everything they are computed and trained with."""
