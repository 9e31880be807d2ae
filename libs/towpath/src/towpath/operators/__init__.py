"""The columnar kernels of the stages: decode, steps, keyed state, encode."""
