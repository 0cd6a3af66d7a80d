"""How good is a model: scores, metrics, tasks posed as text."""
