"""`python -m photon`: the command line."""

from photon.cli.main import main

if __name__ == "__main__":
    main()
