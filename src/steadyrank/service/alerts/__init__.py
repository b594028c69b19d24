"""What somebody should be told of at once, and how it reaches them."""
