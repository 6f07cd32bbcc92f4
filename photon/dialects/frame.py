"""How a place along a side of the picture is written as a number, and read back.

Reading never fails: a number past the edge is at the edge. Under a grammar none is.
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.dialects import ebnf


@dataclass(frozen=True, slots=True)
class Frame:
    """The picture as the model sees it: its size in pixels, at least 1x1, after its processor's resize."""

    width: int
    height: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"a frame must have at least 1x1 pixels, got {self.width}x{self.height}")


@dataclass(frozen=True, slots=True)
class Axis:
    """A side cut into `steps` parts. A place is n of them, 0..top, written with `decimals` or padded to `width`."""

    steps: int
    top: int
    decimals: int = 0
    width: int = 0

    def write(self, fraction: float) -> str:
        """The number nearest to `fraction`, which is in [0, 1]."""
        n = min(round(fraction * self.steps), self.top)
        return f"{n / 10**self.decimals:.{self.decimals}f}" if self.decimals else str(n).zfill(self.width)

    def read(self, text: str) -> float:
        """The fraction in [0, 1] that a decimal number stands for."""
        value = round(float(text) * 10**self.decimals, 6)
        return min(max(value / self.steps, 0.0), 1.0)

    def rule(self) -> str:
        """EBNF of all that `write` may say."""
        if self.width:
            return ebnf.padded_number(self.top, self.width)
        return ebnf.number(self.top, decimals=self.decimals)


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of a dialect: `steps` along both sides, or None for one a pixel. `top` is `steps` unless given."""

    steps: int | None
    top: int | None = None
    decimals: int = 0
    width: int = 0

    def axes(self, frame: Frame | None) -> tuple[Axis, Axis]:
        """Of x and of y. ValueError when the numbers are pixels and there is no frame."""
        if self.steps is not None:
            axis = Axis(self.steps, self.steps if self.top is None else self.top, self.decimals, self.width)
            return axis, axis
        if frame is None:
            raise ValueError("coordinates in pixels need the size of the picture that the model sees")
        return Axis(frame.width, frame.width), Axis(frame.height, frame.height)


UNIT = Scale(1000, decimals=3)
PERCENT = Scale(1000, decimals=1)
THOUSAND = Scale(1000)
THOUSAND_OPEN = Scale(1000, top=999)
PIXELS = Scale(None)
BINS = Scale(1024, top=1023, width=4)
