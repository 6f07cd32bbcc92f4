"""Where a person looks whose eye is at a place of the picture. Run from the repository's root, as

python examples/gaze.py people.jpg 0.42 0.31 --model moondream2-2025-01

The model that comes with Photon was never taught it: without --model this prints so, and which models were.
"""

import argparse

import photon

parser = argparse.ArgumentParser()
parser.add_argument("picture", nargs="?", default="examples/images/park.png")
parser.add_argument("x", nargs="?", type=float, default=0.5, help="of the eye, as a fraction of the picture's width")
parser.add_argument("y", nargs="?", type=float, default=0.5, help="of the eye, as a fraction of the picture's height")
parser.add_argument("--model", default="photon-tiny")
options = parser.parse_args()

with photon.Engine(options.model) as engine:
    try:
        gaze = engine.gaze(options.picture, eye=(options.x, options.y))
    except photon.RequestError as error:
        print(error)
    else:
        if gaze.point is None:
            print("looks at nothing inside the picture")
        else:
            print(f"looks at {gaze.point.x:.3f}, {gaze.point.y:.3f}; drawn in gaze.png")
            gaze.draw().save("gaze.png")
