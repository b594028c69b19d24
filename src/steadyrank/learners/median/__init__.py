"""The paper's learners and estimators: means of medians, and model selection for an unknown corruption."""
