"""The relatives of GPT: each a small difference on one body. A file stands here only where the structure changes."""
