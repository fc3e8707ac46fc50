"""``python -m bpuc``."""

import signal

if __name__ == "__main__":
    # while modules are imported an interrupt ends the process, and says nothing
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bpuc.cli.main import main

    main()
