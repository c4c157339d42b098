"""What can be proved about a model: bounds of its logit, the shortest wrong string, certificates."""
