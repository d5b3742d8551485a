"""How good a condensed set is."""
