"""The items with the highest index, without evaluating all."""
