"""Objects of several names in one call: as they are found, and drawn. Run from the repository's root."""

from collections import Counter

import photon

PICTURE = "examples/images/street.png"
NAMES = ["car", "house", "bus", "bicycle"]

with photon.Engine("photon-tiny") as engine:
    for chunk in engine.point(PICTURE, NAMES, stream=True):
        if isinstance(chunk, photon.Point):
            print(f"{chunk.label} at {chunk.x:.2f}, {chunk.y:.2f}")

    found = engine.detect(PICTURE, NAMES, duplicate_iou=0.8)  # a box that is nearly an earlier one is left out

print(", ".join(f"{label}: {number}" for label, number in Counter(box.label for box in found).items()))
found.draw().save("street-labels.png")
