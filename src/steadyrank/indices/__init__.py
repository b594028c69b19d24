"""The items with the highest index, found without evaluating the index of every item."""
