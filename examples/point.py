"""A point on every dog of the park. Run from the repository's root."""

import photon

with photon.Engine("photon-tiny") as engine:
    for point in engine.point("examples/images/park.png", "dog"):
        print(f"a dog at {point.x:.3f}, {point.y:.3f} of the picture's width and height")
