"""What can be chosen: recipes, protocols, architectures. Nothing here needs torch."""
