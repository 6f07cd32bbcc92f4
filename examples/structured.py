"""Answers that a program can use: one of a few words, a number, an object. Run from the repository's root.

photon-tiny knows no JSON: what it says has the right form, and means little. Name a larger model with --model.
"""

import argparse

import pydantic

import photon


class Stall(pydantic.BaseModel):
    fruit: str = pydantic.Field(max_length=24, description="the fruit of which there is most")
    count: int = pydantic.Field(ge=0, le=99)
    is_full: bool


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="photon-tiny")
picture = "examples/images/market.png"

with photon.Engine(parser.parse_args().model) as engine:
    banana = engine.query(picture, "Is there a banana?", choices=["Yes", "No"])
    print("a banana?", banana.value)

    count = engine.query(picture, "How many bananas are there?", regex="[0-9]{1,2}|one|two|three|four|five")
    print("bananas:", count.value)

    stall = engine.extract(picture, Stall)
    print("text:", stall.text)
    print("count:", stall.value.count if stall.value else "the answer was cut")
