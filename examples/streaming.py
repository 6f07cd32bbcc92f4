"""A caption as it is written, and boxes as they are found. Run from the repository's root."""

import photon

PICTURE = "examples/images/market.png"

with photon.Engine("photon-tiny") as engine:
    for chunk in engine.caption(PICTURE, "long", stream=True):
        if isinstance(chunk, photon.TextDelta):
            print(chunk.text, end="", flush=True)
    print()

    for chunk in engine.detect(PICTURE, "apple", stream=True):
        if isinstance(chunk, photon.Box):
            print("an apple at", chunk.to_pixels(640, 480))
        elif isinstance(chunk, photon.End):
            print(f"done after {chunk.result.metrics.total_ms:.0f} ms")
