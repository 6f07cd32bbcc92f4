"""Several questions at once from asyncio. Run from the repository's root."""

import asyncio

import photon

PICTURE = "examples/images/street.png"


async def main() -> None:
    async with photon.AsyncEngine("photon-tiny") as engine:
        cars, answer = await asyncio.gather(
            engine.detect(PICTURE, "car"),
            engine.query(PICTURE, "Is there a bicycle?"),
        )
        print(f"{len(cars)} cars; a bicycle? {answer.answer}")

        async for chunk in engine.point(PICTURE, "house", stream=True):
            if isinstance(chunk, photon.Point):
                print(f"a house at {chunk.x:.2f}, {chunk.y:.2f}")


asyncio.run(main())
