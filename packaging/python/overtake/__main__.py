"""The command `overtake`, which is the binary."""

import os
import sys

import overtake


def main():
    path = overtake.binary()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
