"""Exercise 20: find the bug (lesson 20).

A benchmark on a device with a queue. The device is played by the class below: it has a clock of its own, a launch takes
5 microseconds, and its kernels run one after the other. `compare` measures two functions, one after the other. The
author has read lesson 20: the clock is stopped only when the queue is empty. The result: `short` takes longer than
`long`, although each of its kernels is five times shorter. On a device that was idle before, nothing looks wrong.

Find what is wrong and mend it in `seconds_for_a_call`. Run this file: the numbers of your benchmark are compared with
what the device is known to take.

    python lessons/exercises/20_find_the_bug.py
"""


class Device:
    """A GPU with a queue. All times are in microseconds."""

    LAUNCH = 5

    def __init__(self):
        self.now = 0  # of the program
        self.free = 0  # when the queue will be empty

    def launch(self, microseconds):
        """A kernel that runs for so long. The program goes on after LAUNCH."""
        self.now += self.LAUNCH
        self.free = max(self.free, self.now) + microseconds

    def synchronise(self):
        """Wait until the queue is empty."""
        self.now = max(self.now, self.free)

    def clock(self):
        return self.now


def long(device):
    device.launch(100)


def short(device):
    device.launch(20)


def seconds_for_a_call(device, function, calls=50):
    """Microseconds that a call takes, when many are made."""
    function(device)  # the first call compiles the kernel
    function(device)
    began = device.clock()
    for _ in range(calls):
        function(device)
    device.synchronise()
    return (device.clock() - began) / calls


def compare(device):
    """Both functions, while the device still works on something that was launched before."""
    for _ in range(60):
        device.launch(100)
    return seconds_for_a_call(device, short), seconds_for_a_call(device, long)


def main() -> int:
    """Judge the benchmark; the exit status."""
    of_short, of_long = compare(Device())
    print(f"your benchmark: short {of_short:.1f} us, long {of_long:.1f} us")
    alone = Device()
    for _ in range(1000):
        alone.launch(20)
    alone.synchronise()
    known = alone.clock() / 1000
    print(f"known: 1,000 calls of short on an idle device take {known:.1f} us each")
    right = abs(of_short - known) < 0.5 and abs(of_long - 100) < 0.5
    print("mended: the benchmark is right" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
