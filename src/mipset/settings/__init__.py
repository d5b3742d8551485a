"""What can be chosen: recipes, methods, protocols, architectures. Nothing here needs torch."""
