"""What is at a point of the picture: a question with a spatial reference. Run from the repository's root."""

import photon

PICTURE = "examples/images/market.png"

with photon.Engine("photon-tiny") as engine:
    for apple in engine.point(PICTURE, "apple"):
        answer = engine.query(PICTURE, "What is here?", spatial_refs=[(apple.x, apple.y)]).answer
        print(f"at {apple.x:.2f}, {apple.y:.2f}: {answer}")
