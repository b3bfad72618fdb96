"""Reads dictionaries of numbers, text and NumPy arrays out of pickle files, without running
anything in them.

A pickle is a program for a small stack machine, and some of its instructions call whatever function
the file names. Here the instructions are only decoded (:mod:`pickletools` does that without acting
on them) and this module carries out the few that build plain values. A function's name is never
looked up: the three names that NumPy writes for an array are known by their text, every other one
is refused.
"""

import pickletools
from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.errors import InputError

__all__ = ["plain_contents"]

_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_NAMES = {
    **{f"{module} _reconstruct": "_reconstruct" for module in _MODULES},
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
}
_KINDS = frozenset("biuf")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8")
_BYTES = ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
_OLD_STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING")
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_IGNORED = ("PROTO", "FRAME")
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """One of the three names; it stands for nothing but itself."""

    name: str


class _Empty:
    """An array or dtype whose contents come with the next BUILD instruction."""

    def __init__(self, kind: str, code: str = "") -> None:
        self.kind, self.code = kind, code
        self.value: Any = None


def plain_contents(data: bytes, name: str) -> Any:
    """What the pickle holds: dict, list, tuple, str, bytes, int, float, bool, None and arrays of
    numbers.

    Text written by Python 2 is returned as bytes. Anything else is refused with the name of what
    was asked for.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return _finished(stack.pop())
            _step(opcode.name, argument, stack, memo, name)
    except InputError:
        raise
    except (
        Exception
    ) as error:  # a file made to harm can fail in any way; nothing of it has been run
        raise InputError(
            f"{name} is damaged ({type(error).__name__} in its pickle); download it again."
        ) from None
    raise InputError(f"{name} is cut short; download it again.")


def _step(op: str, argument: Any, stack: list[Any], memo: dict[int, Any], name: str) -> None:
    if op in _IGNORED:
        return
    if op in _CONSTANTS:
        stack.append(_CONSTANTS[op])
    elif op in _NUMBERS or op in _TEXTS or op in _BYTES:
        stack.append(argument)
    elif op in _OLD_STRINGS:
        stack.append(argument.encode("latin-1"))
    elif op == "MARK":
        stack.append(_MARK)
    elif op in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
        stack.append({"EMPTY_DICT": {}, "EMPTY_LIST": [], "EMPTY_TUPLE": ()}[op])
    elif op in ("TUPLE", "LIST", "DICT"):
        items = _since_mark(stack)
        stack.append(tuple(items) if op == "TUPLE" else items if op == "LIST" else _pairs(items))
    elif op in ("TUPLE1", "TUPLE2", "TUPLE3"):
        size = int(op[-1])
        stack[-size:] = [tuple(stack[-size:])]
    elif op in ("APPEND", "APPENDS"):
        items = [stack.pop()] if op == "APPEND" else _since_mark(stack)
        _of_type(stack[-1], list).extend(_finished(item) for item in items)
    elif op in ("SETITEM", "SETITEMS"):
        items = [stack.pop(), stack.pop()][::-1] if op == "SETITEM" else _since_mark(stack)
        _of_type(stack[-1], dict).update(_pairs(items))
    elif op in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif op == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif op in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif op == "POP":
        stack.pop()
    elif op in ("GLOBAL", "STACK_GLOBAL"):
        if op == "STACK_GLOBAL":
            last, first = stack.pop(), stack.pop()
            argument = f"{first} {last}"
        if argument not in _NAMES:
            raise InputError(
                f"{name} asks for {argument!r:.80}, which could run code; only arrays are read "
                "from it."
            )
        stack.append(_Name(_NAMES[argument]))
    elif op == "REDUCE":
        arguments, called = stack.pop(), stack.pop()
        stack.append(_called(called, arguments))
    elif op == "BUILD":
        state = stack.pop()
        _build(stack[-1], state)
    else:
        raise InputError(
            f"{name} holds the pickle instruction {op}, which plain data does not need; it is not "
            "read."
        )


def _since_mark(stack: list[Any]) -> list[Any]:
    place = next(i for i in range(len(stack) - 1, -1, -1) if stack[i] is _MARK)
    items = stack[place + 1 :]
    del stack[place:]
    return items


def _pairs(items: list[Any]) -> dict[Any, Any]:
    for key in items[::2]:
        if not isinstance(
            key, (str, bytes, int)
        ):  # hashing tuples inside tuples inside tuples would take forever
            raise TypeError("key")
    return {key: _finished(value) for key, value in zip(items[::2], items[1::2], strict=True)}


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(kind.__name__)
    return value


def _finished(value: Any) -> Any:
    if isinstance(value, _Empty):
        return _of_type(value.value, np.ndarray)
    if isinstance(value, _Name) or value is _MARK:
        raise TypeError("not a value")
    return value


def _called(called: Any, arguments: Any) -> _Empty:
    what = _of_type(called, _Name).name
    if what == "_reconstruct" and arguments[0] == _Name("ndarray"):
        return _Empty("array")
    if what == "dtype":
        code = arguments[0]
        return _Empty(
            "dtype", code.decode("ascii") if isinstance(code, bytes) else _of_type(code, str)
        )
    raise TypeError(what)


def _build(target: Any, state: Any) -> None:
    empty = _of_type(target, _Empty)
    if empty.kind == "dtype":
        order = state[1]
        order = order.decode("ascii") if isinstance(order, bytes) else order
        kind = np.dtype(empty.code)
        if kind.kind not in _KINDS or order not in ("<", ">", "=", "|"):
            raise TypeError("dtype")
        empty.value = kind.newbyteorder(order) if order != "|" else kind
        return
    _version, shape, dtype, column_major, content = state
    kind = _of_type(dtype, _Empty).value
    if not isinstance(kind, np.dtype):
        raise TypeError("dtype")
    array = np.frombuffer(_of_type(content, bytes), kind)
    empty.value = array.reshape(tuple(map(int, shape)), order="F" if column_major else "C")
