"""RFC 3339 time stamps: read, written, and how old they are. The same in every time zone; the clock is an argument."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from cueloop_protocol.values import dataclass

SKEW: Final = timedelta(minutes=5)
"""How far ahead of the clock a stamp may be before its age counts as unknown (contract section 9, row 2)."""

HOUR: Final = timedelta(hours=1)

_FORM: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def parse_stamp(text: str) -> datetime | None:
    """The moment `text` names, aware, or None if it is no RFC 3339 time with an offset.

    Digits beyond the microsecond are cut off. A leap second (`:60` at the end of a month, UTC) is the last microsecond
    before it, since `datetime` has no place for it.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    micros = int((match[7] or "0")[:6].ljust(6, "0"))
    zone = _zone(match[8], match[9], match[10])
    if zone is None:
        return None
    leap = second == 60
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, 999_999 if leap else micros, zone)
        return moment if not leap or _ends_a_month(moment) else None
    except (ValueError, OverflowError):  # no such day or hour; a leap second beyond what a date can hold
        return None


def _zone(sign: str | None, hours: str | None, minutes: str | None) -> timezone | None:
    if sign is None or hours is None or minutes is None:
        return UTC
    if int(hours) > 23 or int(minutes) > 59:
        return None
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def _ends_a_month(moment: datetime) -> bool:
    utc = moment.astimezone(UTC)
    return (utc.hour, utc.minute) == (23, 59) and utc.day == monthrange(utc.year, utc.month)[1]


def format_stamp(moment: datetime) -> str:
    """`moment` (aware) as we write it: UTC, nine fractional digits, `Z`."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="microseconds")[:26] + "000Z"


@dataclass(frozen=True, slots=True)
class Age:
    """An age that could be established: `hours` are whole, never negative; one more is reached at `next_hour`."""

    hours: int
    next_hour: datetime | None
    """None where it lies beyond the last year a date can hold."""


@dataclass(frozen=True, slots=True)
class AgeUnknown:
    """An age that cannot be established; `why` continues the sentence "its time stamp …".

    `known_from` is the moment at which the clock will have come close enough to a stamp that is ahead of it.
    """

    why: str
    known_from: datetime | None


def age_of(text: str, now: datetime) -> Age | AgeUnknown:
    """How old the stamp `text` is at `now` (aware). A stamp at most `SKEW` ahead is zero hours old."""
    moment = parse_stamp(text)
    if moment is None:
        return AgeUnknown("is no RFC 3339 time with an offset", None)
    passed = now - moment
    if passed < -SKEW:
        return AgeUnknown("lies in the future", moment - SKEW)
    hours = max(0, passed // HOUR)
    return Age(hours, _later(moment, (hours + 1) * HOUR))


def _later(moment: datetime, by: timedelta) -> datetime | None:
    try:
        return moment + by
    except OverflowError:
        return None
