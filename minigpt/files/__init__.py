"""Files: text, checkpoints, published models."""
