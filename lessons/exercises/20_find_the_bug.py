"""Exercise 20: find the bug (lesson 20).

A benchmark on a device with a queue. The device is played by the class below: it has a clock of its own, a launch takes
5 microseconds, and its kernels run one after the other. The author has read lesson 20: the clock is stopped only when
the queue is empty. On a device that was idle before, nothing looks wrong. But on a device that still works on something
else, a kernel of 20 microseconds takes longer than one of 100 took on the idle device.

Find what is wrong and mend it in `time_of_a_call`. Run this file: the numbers of your benchmark are compared with what
the device is known to take.

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


def time_of_a_call(device, kernel, calls):
    """Microseconds that the launch of a kernel takes, when many are made. kernel: how long it runs, in microseconds"""
    device.launch(kernel)  # the first call compiles the kernel
    device.launch(kernel)
    began = device.clock()
    for _ in range(calls):
        device.launch(kernel)
    device.synchronise()
    return (device.clock() - began) / calls


def measured(waiting, kernel, calls=50):
    """Given: what the benchmark says of a device in whose queue so many kernels of 100 microseconds wait."""
    device = Device()
    for _ in range(waiting):
        device.launch(100)
    return time_of_a_call(device, kernel, calls)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the benchmark; the exit status."""
    right = True
    for kernel, known in ((20, 20), (100, 100), (2, 5)):  # a launch takes 5, so a kernel of 2 costs 5
        for waiting in (0, 60):
            found = measured(waiting, kernel)
            good = found is not None and abs(found - known) < 0.5
            print(f"a kernel of {kernel:3} us, {waiting:2} others before it: yours {found} us, known {known} us")
            right = right and good
    print("mended: the benchmark is right" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
