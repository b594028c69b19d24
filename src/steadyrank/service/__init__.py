"""A ranking service: an event log is the truth, learners are folds over it."""
