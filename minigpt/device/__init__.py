"""Where arrays live and what computes: NumPy or CuPy, the GPU, threads, processes. Only this folder imports cupy."""
