"""Find the items with the highest index without evaluating it for all."""
