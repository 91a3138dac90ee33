"""`python -m levers` is the command `levers`: for environments whose scripts are not on the path."""

from levers.cli.app import main

if __name__ == "__main__":
    main()
