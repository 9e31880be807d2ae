"""Command line of the benchmark."""

from bench.peers.cli import main

if __name__ == "__main__":
    main()
