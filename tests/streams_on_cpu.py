"""CUDA streams and events where there is no GPU: what has certainly been done before what, and nothing else.

Each stream keeps how much of its work, and of that of others, is done before its next work begins. It learns of others
when it waits for an event. So a test can ask whether something could begin too early on a real GPU.
"""

import threading


class Streams(threading.local):
    """Those of one process."""

    def __init__(self):
        self.made = 0
        self.current = [Stream(self)]

    def get(self) -> "Stream":
        """The current one."""
        return self.current[-1]

    def stream(self, non_blocking: bool) -> "Stream":
        """A new one."""
        assert non_blocking, "another one waits for the first stream all the time"
        return Stream(self)


class Stream:
    """done: {stream: how much of its work is done before this stream's next work}."""

    def __init__(self, streams: Streams):
        self.streams = streams
        streams.made += 1
        self.ptr = streams.made
        self.done = {self.ptr: 0}

    def __enter__(self):
        self.streams.current.append(self)

    def __exit__(self, *_):
        self.streams.current.pop()

    def work(self) -> None:
        """Something is computed or sent."""
        self.done[self.ptr] += 1

    def wait_event(self, event: "Event") -> None:
        """What comes next waits for it."""
        for stream, done in event.done.items():
            self.done[stream] = max(self.done.get(stream, 0), done)


class Event:
    """A place in the work of a stream."""

    def __init__(self, disable_timing: bool):
        assert disable_timing, "one that takes the time is slower"
        self.done = {}

    def record(self, stream: Stream) -> None:
        """Here."""
        self.done = dict(stream.done)
