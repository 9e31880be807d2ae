"""The columnar kernels of the stages: decode, steps, keyed state, encode."""

# The query package imports kernels, and kernels the words of its plan module: whichever is imported first, the query
# package has to begin.
import towpath.query  # noqa: F401
