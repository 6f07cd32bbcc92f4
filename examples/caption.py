"""Captions in three lengths. Run from the repository's root."""

import photon

with photon.Engine("photon-tiny") as engine:
    for length in ("short", "normal", "long"):
        print(f"{length}: {engine.caption('examples/images/street.png', length).caption}")
