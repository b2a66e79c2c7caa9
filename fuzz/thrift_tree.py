"""Footers of Parquet files as trees of Thrift's compact protocol, which can be changed and written again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_INTEGERS = (_I16, _I32, _I64)
NUMBERS = (0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 2**15, 2**16, 2**20, 2**20 + 1, 2**30, 2**31 - 1, 2**31, 2**32, 2**62)


@dataclass
class Node:
    """A value and its type: fields by number of a structure, items of a list, a number, bytes."""

    kind: int
    value: Any
    of: int = 0  # the type of a list's items


def read_tree(data: bytes) -> Node:
    """The structure at the start of some bytes."""
    return _Reader(data).value(_STRUCT)


def every_node(node: Node) -> list[Node]:
    """A node and all below it."""
    if node.kind == _STRUCT:
        return [node, *(below for _, child in node.value for below in every_node(child))]
    if node.kind == _LIST:
        return [node, *(below for child in node.value for below in every_node(child))]
    return [node]


def mutate(node: Node, random: Random) -> None:
    """Change one thing."""
    if node.kind in _INTEGERS:
        node.value = random.choice([random.choice(NUMBERS), node.value + random.choice((-1, 1)), -node.value])
    elif node.kind in (_TRUE, _FALSE):
        node.kind = _TRUE + _FALSE - node.kind
    elif node.kind == _BINARY:
        node.value = random.choice([b"", node.value * 2, random.randbytes(random.randrange(40))])
    elif node.kind in (_LIST, _STRUCT) and node.value:
        place = random.randrange(len(node.value))
        change = random.randrange(4)
        if change == 0:
            del node.value[place]
        elif change == 1:
            node.value.insert(place, random.choice(node.value))
        elif change == 2:
            node.value.reverse()
        elif node.kind == _STRUCT:
            node.value.append((random.choice((15, 20, 200)), Node(_I32, random.choice(NUMBERS))))


def write_tree(node: Node) -> bytes:
    """The bytes of a value."""
    if node.kind in _INTEGERS:
        number = node.value & (2**64 - 1) if node.value >= 2**63 else node.value
        return varint(number << 1 if number >= 0 else (-number << 1) - 1)
    if node.kind == _BINARY:
        return varint(len(node.value)) + bytes(node.value)
    if node.kind == _LIST:
        length = len(node.value)
        head = bytes([length << 4 | node.of]) if length < 15 else bytes([0xF0 | node.of]) + varint(length)
        return head + b"".join(write_tree(child) for child in node.value)
    if node.kind == _STRUCT:
        found, last = b"", 0
        for number, child in node.value:
            step = number - last
            short = 0 < step < 16
            found += bytes([step << 4 | child.kind]) if short else bytes([child.kind]) + varint(number << 1)
            found, last = found + (b"" if child.kind in (_TRUE, _FALSE) else write_tree(child)), number
        return found + b"\0"
    return bytes(node.value)


def varint(number: int) -> bytes:
    """A number seven bits at a time."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def value(self, kind: int) -> Node:
        if kind in (_TRUE, _FALSE):
            return Node(kind, None)
        if kind in _INTEGERS:
            number = self._unsigned()
            return Node(kind, (number >> 1) ^ -(number & 1))
        if kind == _STRUCT:
            return Node(kind, self._fields())
        if kind == _LIST:
            head = self._take(1)[0]
            length = self._unsigned() if head >> 4 == 15 else head >> 4
            return Node(kind, [self.value(head & 15) for _ in range(length)], head & 15)
        return Node(kind, self._take({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._unsigned()))

    def _fields(self) -> list[tuple[int, Node]]:
        fields, number = [], 0
        while head := self._take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.value(_I16).value
            fields.append((number, self.value(head & 15)))
        return fields

    def _unsigned(self) -> int:
        number = place = 0
        while (byte := self._take(1)[0]) > 127:
            number, place = number | (byte & 127) << place, place + 7
        return number | byte << place

    def _take(self, length: int) -> bytes:
        self._place += length
        return self._data[self._place - length : self._place]
