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
    device.synchronise()
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
