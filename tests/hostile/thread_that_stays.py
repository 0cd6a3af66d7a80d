"""A thread that does not end."""

import threading
import time

threading.Thread(target=time.sleep, args=(60,)).start()
