"""Many questions about many pictures in one call, with a progress bar. Run from the repository's root."""

from pathlib import Path

import photon

pictures = sorted(Path("examples/images").glob("*.png"))
asks = [photon.Query(picture, "How many houses are there?") for picture in pictures]
asks += [photon.Detect(picture, "tree") for picture in pictures]

with photon.Engine("photon-tiny") as engine:
    answers = engine.run(asks, progress=True, on_error="return")

for ask, answer in zip(asks, answers, strict=True):
    if isinstance(answer, photon.PhotonError):
        print(f"{ask.image.name}: failed: {answer}")
    elif isinstance(answer, photon.QueryResult):
        print(f"{ask.image.name}: houses: {answer.answer}")
    else:
        print(f"{ask.image.name}: trees: {len(answer)}")
