"""The command `kinora`: becomes the program of this package, with the torch package of this Python."""
import os
import sys

from ._library import PREFIX, environment


def main():
    program = str(PREFIX / "bin/kinora")
    os.execve(program, [program, *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
