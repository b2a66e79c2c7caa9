"""Thrift's compact protocol, in which Parquet writes its footers and the headers of its pages: as much as is needed.

What is read may be written by anybody (`Compact`). Nothing is allocated by what it says of itself, nothing is read
beyond its end, and whatever cannot be is a ValueError.

What is written has one form (`struct` and its like): fields in the order of their numbers, and every number in its
shortest form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, STRUCT = range(1, 13)
INTEGERS = frozenset({_I16, _I32, _I64})
TRUE, FALSE, I8, I32, I64, BINARY, LIST = _TRUE, _FALSE, _BYTE, _I32, _I64, _BINARY, _LIST
BOOLEANS = {_TRUE: 1, _FALSE: 0}  # of a field: the type says it
_DEEPEST = 16  # structures within structures
_LONGEST_NUMBER = 10  # bytes of 64 bits, seven at a time
_SHORT_LIST = 15
_LARGEST_BLOCK = 2**20  # of deltas: writers have 128 or 256


def read_at(file: BinaryIO, start: int, length: int) -> bytes:
    """Exactly so many bytes of a file."""
    file.seek(start)
    data = file.read(length)
    if len(data) != length:
        raise ValueError("the file ends too soon")
    return data


class Compact:
    """A place in some bytes, from which values are read or skipped one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._end = data, len(data)
        self.position = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a structure: number and type. Each is to be read or skipped before the next is asked for."""
        seen: set[int] = set()
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self.signed()
            if number in seen:
                raise ValueError("a field is there twice")
            seen.add(number)
            yield number, kind

    def integer(self, kind: int) -> int:
        """A number of 16, 32 or 64 bits."""
        if kind not in INTEGERS:
            raise ValueError("a number is wanted")
        return self.signed()

    def integer_of(self, kind: int, wanted: int) -> int:
        """A number of one width."""
        if kind != wanted:
            raise ValueError("a number of another width is wanted")
        return self.signed()

    def items(self, kind: int, wanted: int) -> range:
        """The places of a list whose items have the type wanted; each is to be read or skipped in its turn."""
        if kind != LIST:
            raise ValueError("a list is wanted")
        length, of = self._list_head()
        if length and of != wanted:
            raise ValueError("a list of something else is wanted")
        return range(length)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Go past a field's value."""
        if depth > _DEEPEST:
            raise ValueError("structures are too deep")
        if kind in (_TRUE, _FALSE):
            return  # the type says it
        if kind in INTEGERS:
            self.unsigned()
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            length, of = self._list_head()
            self._skip_items(length, of, depth)
        elif kind == _MAP:
            self._skip_map(depth)
        else:
            self._move(self._width(kind))

    def _width(self, kind: int) -> int:
        """The bytes of a value that has so many, whatever is in them."""
        if kind == _BINARY:
            return self.unsigned()
        widths = {_BYTE: 1, _DOUBLE: 8}
        if kind not in widths:
            raise ValueError("there is no such type")
        return widths[kind]

    def _skip_items(self, length: int, of: int, depth: int) -> None:
        for _ in range(length):
            if of in (_TRUE, _FALSE):
                self._move(1)
            else:
                self.skip(of, depth + 1)

    def _skip_map(self, depth: int) -> None:
        length = self._within(self.unsigned())
        if length:
            kinds = self._byte()
            for _ in range(length):
                self._skip_items(1, kinds >> 4, depth)
                self._skip_items(1, kinds & 15, depth)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        length = head >> 4
        return self._within(self.unsigned() if length == 15 else length), head & 15

    def _within(self, length: int) -> int:
        """So many items, if there can be as many: each takes a byte at least."""
        if length > self._end - self.position:
            raise ValueError("a list is longer than what is left")
        return length

    def signed(self) -> int:
        """A number of any length up to 64 bits, with its sign in the last bit."""
        number = self.unsigned()
        return (number >> 1) ^ -(number & 1)

    def unsigned(self) -> int:
        """A number of any length up to 64 bits."""
        number = self._byte()
        if number < 128:  # as most are
            return number
        number &= 127
        for place in range(1, _LONGEST_NUMBER):
            byte = self._byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise ValueError("a number is too long")

    def _byte(self) -> int:
        place = self.position
        if place >= self._end:
            raise ValueError("the end comes too soon")
        self.position = place + 1
        return self._data[place]

    def take(self, length: int) -> bytes:
        """So many bytes as they are."""
        start = self.position
        self._move(length)
        return self._data[start : self.position]

    def _move(self, length: int) -> None:
        if length > self._end - self.position:
            raise ValueError("the end comes too soon")
        self.position += length


def sum_of_deltas(data: bytes, most: int, largest: int) -> int:
    """The sum of the numbers at the start of `data`, at most so many and each at most so large: bit-packed deltas."""
    import numpy as np

    reader = Compact(data)
    block, parts, count, value = reader.unsigned(), reader.unsigned(), reader.unsigned(), reader.signed()
    if not 0 < parts <= block <= _LARGEST_BLOCK or block % (32 * parts) or count > most or not 0 <= value <= largest:
        raise ValueError("deltas that cannot be")
    total, left, values = value if count else 0, count - 1, block // parts
    while left > 0:
        least = reader.signed()
        if abs(least) > 2**32:
            raise ValueError("deltas that cannot be")
        for width in reader.take(parts):
            if left <= 0:
                break
            if width > 32:
                raise ValueError("deltas that cannot be")
            bits = np.unpackbits(np.frombuffer(reader.take(values * width // 8), np.uint8), bitorder="little")
            packed = bits.reshape(values, width)[:left].astype(np.int64) @ (1 << np.arange(width, dtype=np.int64))
            numbers = value + np.cumsum(packed + least)
            if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) <= largest:
                raise ValueError("deltas that cannot be")
            total, value, left = total + int(numbers.sum()), int(numbers[-1]), left - values
    return total


Field = tuple[int, int, bytes]  # its number, its type and its value


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """A number and the place behind it; ValueError if it does not end."""
    number = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
    raise ValueError("a number does not end")


def whole(number: int) -> bytes:
    """A number of 32 or 64 bits."""
    return varint((number << 1) ^ (number >> 63))


def text(content: bytes) -> bytes:
    """Bytes with their length before them."""
    return varint(len(content)) + content


def items(kind: int, written: Sequence[bytes]) -> bytes:
    """A list."""
    head = bytes([len(written) << 4 | kind]) if len(written) < _SHORT_LIST else bytes([0xF0 | kind])
    return head + (varint(len(written)) if len(written) >= _SHORT_LIST else b"") + b"".join(written)


def struct(fields: Iterable[Field] = ()) -> bytes:
    """A structure, its fields in ascending order and at most 15 apart. A truth value is all in its type."""
    written, last = bytearray(), 0
    for number, kind, value in fields:
        written += bytes([(number - last) << 4 | kind]) + value
        last = number
    return bytes(written) + b"\0"


def whole_fields(*numbers: int) -> bytes:
    """A structure of 32-bit numbers, its fields numbered from 1."""
    return struct((place, I32, whole(number)) for place, number in enumerate(numbers, 1))
