"""The paper's learners and estimators: means of medians, and the search for the unknown corruption."""
