"""Boxes around every banana, in pixels, and the picture with the boxes drawn. Run from the repository's root."""

import photon

with photon.Engine("photon-tiny") as engine:
    found = engine.detect("examples/images/market.png", "banana")

for box in found.boxes:
    left, top, right, bottom = box.to_pixels(*found.image.size)
    print(f"banana at {left}, {top} to {right}, {bottom}, score {box.score:.2f}")
found.draw().save("market-bananas.png")
