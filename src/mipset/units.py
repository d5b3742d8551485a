"""Numbers as people read them: bytes, durations, FLOPs, and a mean with its spread."""

from __future__ import annotations

DAY = 24 * 3600.0


def duration(seconds: float) -> str:
    """`7 s`, `2:05`, `1:02:05` or `24.1 days`."""
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:,.1f} days"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def parse_duration(text: str) -> float:
    """`90s`, `3min`, `3.5min` or `2h` in seconds. Anything else is a ValueError."""
    units = {"s": 1.0, "min": 60.0, "h": 3600.0}
    number = text.rstrip("hmins")
    unit = text[len(number) :]
    if unit not in units or not 0 < float(number) * units[unit] < float("inf"):
        raise ValueError(f"{text!r} is no time")
    return float(number) * units[unit]


def byte_count(count: int) -> str:
    """`512 B`, `30.7 kB`, `3.1 MB`, `1.0 GB`."""
    for unit, length in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} B"


def flop_count(count: int) -> str:
    """`999 FLOP`, `1.46 TFLOP`, `222 PFLOP`."""
    units, power = ("", "k", "M", "G", "T", "P", "E", "Z"), 0
    while power < len(units) - 1 and float(f"{count / 1000**power:.3g}") >= 1000:
        power += 1
    return f"{count / 1000**power:.3g} {units[power]}FLOP"


def spread(mean: float, std: float, networks: int, sign: str = "± ") -> str:
    """`60.0 ± 1.2`, or `60.0` for one network, whose accuracy has no spread."""
    return f"{mean:.1f} {sign}{std:.1f}" if networks > 1 else f"{mean:.1f}"
