"""The Triton kernel that draws scenes on a GPU: one program a 32x32 tile of one picture, objects from back to front.

Its plain twin is `render._draw_plain`. Invariant: both read the same rows of numbers, laid out in render.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

TILE = 32


@triton.jit
def _texel(base, x, y, side):
    """Four channels in 0..1 of the packed texel (x, y), zeros outside."""
    inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
    packed = tl.load(base + y * side + x, mask=inside, other=0)
    red = (packed & 255).to(tl.float32)
    green = ((packed >> 8) & 255).to(tl.float32)
    blue = ((packed >> 16) & 255).to(tl.float32)
    alpha = ((packed >> 24) & 255).to(tl.float32)
    return red / 255, green / 255, blue / 255, alpha / 255


@triton.jit
def _bilinear(base, u, v, side):
    """Four channels at (u, v) in 0..1 of a square texture."""
    x = u * side - 0.5
    y = v * side - 0.5
    x0 = tl.floor(x)
    y0 = tl.floor(y)
    fx = x - x0
    fy = y - y0
    xi = x0.to(tl.int32)
    yi = y0.to(tl.int32)
    r0, g0, b0, a0 = _texel(base, xi, yi, side)
    r1, g1, b1, a1 = _texel(base, xi + 1, yi, side)
    r2, g2, b2, a2 = _texel(base, xi, yi + 1, side)
    r3, g3, b3, a3 = _texel(base, xi + 1, yi + 1, side)
    w0 = (1 - fx) * (1 - fy)
    w1 = fx * (1 - fy)
    w2 = (1 - fx) * fy
    w3 = fx * fy
    red = r0 * w0 + r1 * w1 + r2 * w2 + r3 * w3
    green = g0 * w0 + g1 * w1 + g2 * w2 + g3 * w3
    blue = b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
    alpha = a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
    return red, green, blue, alpha


@triton.jit
def _recolour(p, red, green, blue, alpha):
    """The row's 3x4 colour matrix on premultiplied channels, kept within 0..alpha."""
    r = tl.load(p + 0) * red + tl.load(p + 1) * green + tl.load(p + 2) * blue + tl.load(p + 3) * alpha
    g = tl.load(p + 4) * red + tl.load(p + 5) * green + tl.load(p + 6) * blue + tl.load(p + 7) * alpha
    b = tl.load(p + 8) * red + tl.load(p + 9) * green + tl.load(p + 10) * blue + tl.load(p + 11) * alpha
    r = tl.minimum(tl.maximum(r, 0.0), alpha)
    g = tl.minimum(tl.maximum(g, 0.0), alpha)
    b = tl.minimum(tl.maximum(b, 0.0), alpha)
    return r, g, b


@triton.jit(do_not_specialize=["height", "width", "tiles_x"])
def compose(  # noqa: PLR0913, PLR0915
    canvas,
    owner,
    stats,
    atlas,
    bank,
    back_numbers,
    back_index,
    numbers,
    indices,
    height,
    width,
    tiles_x,
    bank_side,
    OBJECTS: tl.constexpr,
    NUMBERS: tl.constexpr,
    INDICES: tl.constexpr,
    BACK: tl.constexpr,
    SIZE: tl.constexpr,
    HIT: tl.constexpr,
):
    """canvas uint8 [n, 3, H, W]; owner int8 [n, H, W]; stats int32 [n, OBJECTS, 6]: drawn, seen, x0, y0, -x1, -y1."""
    image = tl.program_id(0)
    tile = tl.program_id(1)
    top = (tile // tiles_x) * SIZE
    left = (tile % tiles_x) * SIZE
    yi = top + tl.arange(0, SIZE)[:, None]
    xi = left + tl.arange(0, SIZE)[None, :]
    on_canvas = (yi < height) & (xi < width)
    y = yi.to(tl.float32) + 0.5
    x = xi.to(tl.float32) + 0.5

    p = back_numbers + image * BACK
    u = tl.load(p + 0) * x + tl.load(p + 1) * y + tl.load(p + 2)
    v = tl.load(p + 3) * x + tl.load(p + 4) * y + tl.load(p + 5)
    base = bank + tl.load(back_index + image).to(tl.int64) * bank_side * bank_side
    red, green, blue, alpha = _bilinear(
        base, tl.minimum(tl.maximum(u, 0.002), 0.998), tl.minimum(tl.maximum(v, 0.002), 0.998), bank_side
    )
    red, green, blue = _recolour(p + 6, red, green, blue, tl.full([SIZE, SIZE], 1.0, tl.float32))
    own = tl.full([SIZE, SIZE], -1, tl.int32)

    for k in range(OBJECTS):
        q = indices + (image * OBJECTS + k) * INDICES
        x0 = tl.load(q + 2)
        y0 = tl.load(q + 3)
        x1 = tl.load(q + 4)
        y1 = tl.load(q + 5)
        if (x0 < left + SIZE) & (x1 > left) & (y0 < top + SIZE) & (y1 > top):
            p = numbers + (image * OBJECTS + k) * NUMBERS
            side = tl.load(q + 1)
            sprite = atlas + tl.load(q).to(tl.int64)
            soft = atlas + tl.load(q + 6).to(tl.int64)
            u = tl.load(p + 0) * x + tl.load(p + 1) * y + tl.load(p + 2)
            v = tl.load(p + 3) * x + tl.load(p + 4) * y + tl.load(p + 5)
            r1, g1, b1, under = _bilinear(soft, u - tl.load(p + 23), v - tl.load(p + 24), tl.load(q + 7))
            under = tl.minimum(under * tl.load(p + 25), 1.0) * tl.load(p + 26)
            red = red * (1 - under) + tl.load(p + 27) * under
            green = green * (1 - under) + tl.load(p + 28) * under
            blue = blue * (1 - under) + tl.load(p + 29) * under
            r, g, b, a = _bilinear(sprite, u, v, side)
            window = (u >= tl.load(p + 6)) & (v >= tl.load(p + 7)) & (u <= tl.load(p + 8)) & (v <= tl.load(p + 9))
            hard = tl.minimum(tl.maximum((a - 0.5) * tl.load(p + 22) + 0.5, 0.0), 1.0) * tl.where(a > 0.004, 1.0, 0.0)
            hard = tl.where(window, hard, 0.0)
            scale = hard / tl.maximum(a, 0.004)
            r, g, b = _recolour(p + 10, r * scale, g * scale, b * scale, hard)
            red = red * (1 - hard) + r
            green = green * (1 - hard) + g
            blue = blue * (1 - hard) + b
            hit = (hard > HIT) & on_canvas
            own = tl.where(hit, k, own)
            tl.atomic_add(stats + (image * OBJECTS + k) * 6, tl.sum(hit.to(tl.int32)))

    out = canvas + image.to(tl.int64) * 3 * height * width + yi * width + xi
    tl.store(out, (red * 255 + 0.5).to(tl.uint8), mask=on_canvas)
    tl.store(out + height * width, (green * 255 + 0.5).to(tl.uint8), mask=on_canvas)
    tl.store(out + 2 * height * width, (blue * 255 + 0.5).to(tl.uint8), mask=on_canvas)
    tl.store(owner + image.to(tl.int64) * height * width + yi * width + xi, own.to(tl.int8), mask=on_canvas)

    for k in range(OBJECTS):
        mine = (own == k) & on_canvas
        seen = tl.sum(mine.to(tl.int32))
        if seen > 0:
            s = stats + (image * OBJECTS + k) * 6
            tl.atomic_add(s + 1, seen)
            tl.atomic_min(s + 2, tl.min(tl.where(mine, xi, 1 << 20)))
            tl.atomic_min(s + 3, tl.min(tl.where(mine, yi, 1 << 20)))
            tl.atomic_min(s + 4, tl.min(tl.where(mine, -xi - 1, 1 << 20)))
            tl.atomic_min(s + 5, tl.min(tl.where(mine, -yi - 1, 1 << 20)))
