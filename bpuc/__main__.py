"""``python -m bpuc``."""

from bpuc.cli.main import main

if __name__ == "__main__":
    main()
