"""Applications beyond NEXMark, each with its input, its result in plain Python, and tests."""
