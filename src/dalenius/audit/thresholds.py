"""The values at which a column is cut, read from their texts (docs/release-format.md).

What a text stands for must be beyond doubt: integers without zeros in front, `true` and `false`, dates and times of one
form. Arrow reads the rest. Its readers of dates stop at the year 9999 and it has none for times of day, so those are
read here: as integers, counted in the days or units of the type.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa

from dalenius.audit.arrays import as_text
from dalenius.release.types import text_can_carry

_DATE = r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?"
_FORMS = {"date": _DATE, "time": _TIME, "timestamp": f"{_DATE} {_TIME}", "zoned": rf"{_DATE} {_TIME}\+00"}
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = 719_162  # days from 0001-01-01 to 1970-01-01
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class UnreadableError(ValueError):
    """A text that is no value of the type, or none at which a column can be cut."""


def threshold(text: str, kind: pa.DataType) -> pa.Array:
    """The value, as an array of one."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return _read(text, kind)
    except (pa.ArrowException, ValueError, OverflowError):  # an encoding error is a ValueError, too
        raise UnreadableError from None


def can_be_cut(kind: pa.DataType) -> bool:
    """Whether values of the type have a text by which they are known exactly."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_time(kind) or (text_can_carry(kind) and not pa.types.is_date64(kind)))


def _read(text: str, kind: pa.DataType) -> pa.Array:
    text.encode()  # half a pair of surrogates is no text
    if pa.types.is_integer(kind) and str(int(text)) != text:
        raise UnreadableError
    if pa.types.is_boolean(kind) and text not in ("true", "false"):
        raise UnreadableError
    if pa.types.is_date32(kind):
        return _counted(_days(_parts(text, "date")), kind)
    if pa.types.is_time(kind):
        return _counted(_of_day(_parts(text, "time"), kind.unit), kind)
    if pa.types.is_timestamp(kind):
        parts = _parts(text, "zoned" if kind.tz is not None else "timestamp")
        return _counted(_days(parts) * 86_400 * _UNITS[kind.unit] + _of_day(parts, kind.unit), kind)
    found = as_text([text]).cast(kind)
    if pa.types.is_floating(kind):
        number = float(found[0].as_py())
        if math.isnan(number) or (math.isinf(number) and text not in ("inf", "-inf")):
            raise UnreadableError
    return found


def _parts(text: str, form: str) -> dict[str, str]:
    found = re.fullmatch(_FORMS[form], text, re.ASCII)
    if found is None:
        raise UnreadableError
    return found.groupdict()


def _days(parts: dict[str, str]) -> int:
    """Days since 1970, of a Gregorian calendar without end in either direction; 1 BC is the year 0."""
    year, month, day = int(parts["year"]), int(parts["month"]), int(parts["day"])
    year = 1 - year if parts["bc"] else year
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        raise UnreadableError
    before = year - 1
    whole_years = before * 365 + before // 4 - before // 100 + before // 400
    return whole_years + sum(_DAYS[: month - 1]) + (leap and month > 2) + day - 1 - _EPOCH


def _of_day(parts: dict[str, str], unit: str) -> int:
    """Units since midnight."""
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(parts["second"])
    nanoseconds = int((parts["fraction"] or "0").ljust(9, "0"))
    number, rest = divmod(nanoseconds * _UNITS[unit], 10**9)
    if hour > 24 or minute > 59 or second > 59 or rest:
        raise UnreadableError
    return (hour * 3600 + minute * 60 + second) * _UNITS[unit] + number


def _counted(number: int, kind: pa.DataType) -> pa.Array:
    plain = np.array([number], np.int32 if kind.bit_width == 32 else np.int64)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(plain)])
