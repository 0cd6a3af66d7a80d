"""Where arrays live and who computes: NumPy or CuPy, the GPU, threads, processes. Only this folder imports cupy."""
