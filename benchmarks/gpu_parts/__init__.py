"""The parts of `benchmarks/gpu.py`: what each measures, when it is finished, and how it is run."""
