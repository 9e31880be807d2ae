"""``python -m towpath.cli``."""

from towpath.cli import main

main()
