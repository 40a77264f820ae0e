"""Small charts as inline SVG. Colours are CSS variables of the page; hover values are drawn by the page's script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

Point = tuple[float, float]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 24
_DRAWN = 360
"""Points of a curve that are drawn; more would not be seen."""


@dataclass(frozen=True)
class Series:
    """One line. `color` is a CSS colour."""

    label: str
    color: str
    points: Sequence[Point]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values (1, 2, 2.5 or 5 times a power of ten) inside [low, high], about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten inside [low, high], with 2 and 5 between them when there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    full = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    ticks = [tick for tick in full if low * 0.999 <= tick <= high * 1.001]
    tens = [tick for tick in ticks if math.isclose(math.log10(tick), round(math.log10(tick)))]
    return tens if len(tens) >= 3 else ticks


def label_of(value: float) -> str:
    """A tick or hover value in few characters: 1200 -> 1.2k, 0.00031 -> 3.1e-4."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    if size >= 1e3:
        return f"{value / 1e3:.4g}k"
    if size and size < 1e-3:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{value:.4g}"


def smooth(points: Sequence[Point], window: int) -> list[Point]:
    """Centred moving average over `window` points (fewer at the ends)."""
    half = window // 2
    values = [value for _, value in points]
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    out = []
    for index, (step, _) in enumerate(points):
        reach = min(half, index, len(points) - 1 - index)
        low, high = index - reach, index + reach + 1
        out.append((step, (sums[high] - sums[low]) / (high - low)))
    return out


def thin(points: Sequence[Point], limit: int = _DRAWN) -> list[Point]:
    """At most about `limit` points, keeping the extremes of every stretch, so that no spike disappears."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(len(points) / (limit / 2))
    kept: list[Point] = []
    for at in range(0, len(points), size):
        part = points[at : at + size]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return kept


def wants_log(series: Sequence[Series]) -> bool:
    """Whether values span so much (and are all positive) that a linear axis would hide the end of the curve."""
    values = [value for line in series for _, value in line.points]
    return bool(values) and min(values) > 0 and max(values) / min(values) > 30


def line_chart(
    title: str, series: Sequence[Series], *, unit: str = "", x_unit: str = "step", width: int = 380, height: int = 190,
    from_zero: bool = False,
) -> Markup:  # fmt: skip
    """Lines over steps with axes. Long noisy curves get their moving average on top of the pale raw values."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return Markup("")
    log = wants_log(drawn)
    xs = [step for line in drawn for step, _ in line.points]
    ys = [value for line in drawn for _, value in line.points]
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = min(ys), max(ys)
    if from_zero and not log:
        y_low, y_high = min(0.0, y_low), max(0.0, y_high)
    if y_low == y_high:
        pad = abs(y_low) * 0.1 or 1.0
        y_low, y_high = (y_low / 1.2, y_high * 1.2) if log else (y_low - pad, y_high + pad)
    elif not log:
        pad = (y_high - y_low) * 0.06
        y_low, y_high = (y_low if from_zero and y_low == 0 else y_low - pad), y_high + pad
    if x_low == x_high:
        x_low, x_high = x_low - 1, x_high + 1
    plot_w, plot_h = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def scaled(value: float) -> float:
        return math.log10(value) if log else value

    bottom, top = scaled(y_low), scaled(y_high)

    def x_of(step: float) -> float:
        return _LEFT + (step - x_low) / (x_high - x_low) * plot_w

    def y_of(value: float) -> float:
        return _TOP + plot_h - (scaled(value) - bottom) / (top - bottom) * plot_h

    parts = []
    for tick in log_ticks(y_low, y_high) if log else nice_ticks(y_low, y_high):
        y = y_of(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label_of(tick)}</text>'
        )
    for tick in nice_ticks(x_low, x_high):
        x = x_of(tick)
        parts.append(
            f'<line class="notch" x1="{x:.1f}" x2="{x:.1f}" y1="{height - _BOTTOM}" y2="{height - _BOTTOM + 4}"/>'
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label_of(tick)}</text>'
        )
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{height - _BOTTOM}" y2="{height - _BOTTOM}"/>'
    )
    hover: list[dict[str, Any]] = []
    for line in drawn:
        raw = thin(line.points)
        noisy = len(line.points) >= 24
        color = escape(line.color)
        parts.append(_polyline(raw, x_of, y_of, f'class="line{" raw" if noisy else ""}" stroke="{color}"'))
        if noisy:
            window = max(5, len(line.points) // 12) | 1
            even = thin(smooth(line.points, window))
            parts.append(_polyline(even, x_of, y_of, f'class="line" stroke="{color}"'))
        if len(line.points) == 1:
            step, value = line.points[0]
            parts.append(f'<circle cx="{x_of(step):.1f}" cy="{y_of(value):.1f}" r="3" fill="{color}"/>')
        hover.append(
            {
                "label": line.label,
                "color": line.color,
                "points": [[round(x_of(s), 1), round(y_of(v), 1), label_of(s), label_of(v)] for s, v in raw],
            }
        )
    facts = escape(json.dumps({"x": x_unit, "unit": unit, "lines": hover}, separators=(",", ":")))
    body = "".join(parts)
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'data-hover="{facts}">{body}<g class="hover"></g></svg>'
    )


def _polyline(points: Sequence[Point], x_of: Any, y_of: Any, attributes: str) -> str:
    path = " ".join(f"{x_of(step):.1f},{y_of(value):.1f}" for step, value in points)
    return f'<polyline {attributes} points="{path}"/>'


def interval_bar(value: float, interval: tuple[float, float] | None, color: str, width: int = 132) -> Markup:
    """A rate from 0 to 1 as a bar, with its interval as a whisker."""
    height = 12
    whisker = ""
    if interval:
        low, high = (max(0.0, min(1.0, edge)) * width for edge in interval)
        whisker = (
            f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>'
            f'<line class="whisker" x1="{low:.1f}" x2="{low:.1f}" y1="3" y2="9"/>'
            f'<line class="whisker" x1="{high:.1f}" x2="{high:.1f}" y1="3" y2="9"/>'
        )
    filled = max(0.0, min(1.0, value)) * width
    return Markup(
        f'<svg class="bar" viewBox="0 0 {width} {height}" width="{width}" height="{height}" aria-hidden="true">'
        f'<rect class="track" x="0" y="1" width="{width}" height="10" rx="3"/>'
        f'<rect x="0" y="1" width="{filled:.1f}" height="10" rx="3" fill="{escape(color)}"/>{whisker}</svg>'
    )
