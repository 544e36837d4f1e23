"""`python -m jumar.demo`, for where the `jumar` command is not on the path."""

from __future__ import annotations

import argparse
import os
import sys

from jumar.demo import run_demo
from jumar.errors import JumarError

_INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended


def main() -> int:
    """Read the options and run the demonstration."""
    parser = argparse.ArgumentParser(
        prog="python -m jumar.demo", description="Kill two agents five times, and see each finish once."
    )
    parser.add_argument(
        "--loop", dest="agent", action="store_const", const="operate", default="repair", help="do it with loop agents"
    )
    parser.add_argument("--json", action="store_true", help="print the figures only")
    parser.add_argument("--keep", metavar="DIR", help="do it in this fresh directory, and keep everything")
    options = parser.parse_args()
    try:
        code = run_demo(options.agent, json=options.json, keep=options.keep)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from flushing into the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except JumarError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Stopped. The processes that were started are ended.", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
