"""Building blocks of several learners."""
