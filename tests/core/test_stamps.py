"""RFC 3339 stamps and ages: what is read, what is refused, and the edges of an hour."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.stamps import SKEW, Age, AgeUnknown, age_of, format_stamp, parse_stamp

NOW = datetime(2026, 2, 8, 12, 0, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-02-07T10:00:00Z", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2026-02-07t10:00:00z", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2026-02-07 10:00:00Z", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2026-02-07T10:00:00.5Z", datetime(2026, 2, 7, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-02-07T10:00:00.123456789Z", datetime(2026, 2, 7, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-02-07T10:00:00.123456789012345678901234567890Z", datetime(2026, 2, 7, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-02-07T18:00:00+08:00", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2026-02-07T04:30:00-05:30", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2026-02-07T10:00:00-00:00", datetime(2026, 2, 7, 10, tzinfo=UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2016-12-31T18:59:60.5-05:00", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_a21_a_stamp_with_an_offset_is_read(text: str, utc: datetime) -> None:
    assert parse_stamp(text) == utc


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-07",
        "2026-02-07T10:00:00",
        "2026-W06-6",
        "2026-W06-6T10:00:00Z",
        "2026-038T10:00:00Z",
        "20260207T100000Z",
        "2026-02-07T10:00Z",
        "2026-02-07T10:00:00.Z",
        "2026-02-07T10:00:00,5Z",
        "2026-02-07T10:00:00+0800",
        "2026-02-07T10:00:00+08",
        "2026-02-07T10:00:00+24:00",
        "2026-02-07T10:00:00+08:60",
        "2026-02-07T10:00:00 Z",
        " 2026-02-07T10:00:00Z",
        "2026-02-07T10:00:00Z\n",
        "2026-02-30T10:00:00Z",
        "2025-02-29T10:00:00Z",
        "1900-02-29T10:00:00Z",
        "2026-13-07T10:00:00Z",
        "2026-02-07T24:00:00Z",
        "2026-02-07T10:60:00Z",
        "2026-02-07T10:00:61Z",
        "2026-02-07T10:00:60Z",
        "2016-12-30T23:59:60Z",
        "0001-01-01T00:00:60+23:59",
        "0000-01-01T00:00:00Z",
        "+2026-02-07T10:00:00Z",
        "２０２６-02-07T10:00:00Z",
    ],
)
def test_a21_anything_else_is_no_stamp(text: str) -> None:
    assert parse_stamp(text) is None


@given(st.text(max_size=40))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    moment = parse_stamp(text)
    assert moment is None or moment.utcoffset() is not None


ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=ZONES)


@given(MOMENTS)
def test_what_is_written_is_read_back(moment: datetime) -> None:
    written = format_stamp(moment)
    assert len(written) == len("2026-02-07T10:00:00.000000000Z")
    assert parse_stamp(written) == moment


@given(MOMENTS)
def test_an_isoformat_with_seconds_is_read(moment: datetime) -> None:
    assert parse_stamp(moment.isoformat()) == moment


def test_a_stamp_has_nine_digits() -> None:
    assert format_stamp(datetime(26, 2, 7, 18, 0, 0, 5, tzinfo=timezone(timedelta(hours=8)))) == "0026-02-07T10:00:00.000005000Z"


@pytest.mark.parametrize(
    ("passed", "hours"),
    [
        (timedelta(hours=24), 24),
        (timedelta(hours=24) - SECOND, 23),
        (timedelta(hours=24, minutes=59, seconds=59, microseconds=999_999), 24),
        (timedelta(0), 0),
        (-SECOND, 0),
        (-SKEW, 0),
        (timedelta(days=400), 9600),
    ],
)
def test_a20_an_age_is_in_whole_hours_and_never_negative(passed: timedelta, hours: int) -> None:
    age = age_of(format_stamp(NOW - passed), NOW)
    assert age == Age(hours, NOW - passed + timedelta(hours=hours + 1))


@pytest.mark.parametrize("ahead", [SKEW + timedelta(microseconds=1), timedelta(hours=25), timedelta(days=27_000)])
def test_a20_a_stamp_far_ahead_has_no_age(ahead: timedelta) -> None:
    age = age_of(format_stamp(NOW + ahead), NOW)
    assert age == AgeUnknown("lies in the future", NOW + ahead - SKEW)
    assert isinstance(age.known_from, datetime)
    assert age_of(format_stamp(NOW + ahead), age.known_from) == Age(0, NOW + ahead + timedelta(hours=1))


def test_a21_a_stamp_that_cannot_be_read_has_no_age_and_never_will() -> None:
    assert age_of("2026-02-07T10:00:00", NOW) == AgeUnknown("is no RFC 3339 time with an offset", None)


def test_an_hour_beyond_the_last_year_is_none() -> None:
    assert age_of("9999-12-31T23:30:00Z", datetime(9999, 12, 31, 23, 40, tzinfo=UTC)) == Age(0, None)


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield os.environ["TZ"]
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(("text", "hours"), [("2026-02-07T12:01:00{}", 23), ("2026-02-07T11:59:00{}", 24)])
@pytest.mark.parametrize("offset", ["Z", "+00:00", "-00:00"])
def test_a21_the_zone_of_the_process_does_not_matter(text: str, hours: int, offset: str) -> None:
    age = age_of(text.format(offset), NOW)
    assert isinstance(age, Age)
    assert age.hours == hours
