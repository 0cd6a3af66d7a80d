"""A loop without an end when the file is loaded."""

while True:
    pass
