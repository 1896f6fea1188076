"""Bounds checks in generated code, for ``PIRKIT_SANITIZE=1``.

Each load and store of an element, masked, gathered or plain, is preceded by a comparison with the
buffers of the call: its operands, the scratch memory of its thread, and the tables of numbers that
are part of the code. An access has to stay in the buffer that its address was derived from (Jones
and Kelly, 1997): addresses are followed back through `getelementptr` to the operand, parameter or
table. Some parameters of functions that a nest calls (`%moved`) point before their buffer: there an
access has to stay in some buffer.

The check works on the text of a module, so it covers what every emitter writes. An access that
leaves its buffer ends the process, as with an address sanitizer: the memory of its caller can no
longer be trusted.

Small matmuls have the sizes of their operands among the numbers of a call. What is copied to and
from the stack of a loop has to stay in the room that the stack has. Not checked: the tables of
addresses themselves. Temporaries in scratch memory are one buffer.
"""

from __future__ import annotations

import re
from string import Template
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.function import Code, size_from_words
from pirkit.runtime.native.records_ir import STACK

_BYTES: Final = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8,
                 "double": 8}  # fmt: skip
_TYPE: Final = r"(<\d+ x \w+>|\w+)"
_DEFINE: Final = re.compile(r"define (?:internal |private )?\w+ (@\w+)\(")
_CALL: Final = re.compile(r"(call (?:<\d+ x \w+>|\w+) )(@[\w.]+)\(")
_GEP: Final = re.compile(r"  (%[\w.]+) = getelementptr (?:inbounds )?\w+, ptr ([%@][\w.]+),")
_NUMBERS: Final = re.compile(r"^(@\w+) = private unnamed_addr constant \[(\d+) x (\w+)\]", re.M)
_MOVED: Final = re.compile(r"ptr (%moved\d+)")
_TABLE: Final = re.compile(r"  (%[\w.]+) = load ptr, ptr (%[\w.]+)")
_STACK: Final = re.compile(r"  (%[\w.]+) = alloca ")
_LOAD: Final = re.compile(rf"  %[\w.]+ = load {_TYPE}, ptr ([%@][\w.]+)")
_STORE: Final = re.compile(rf"  store {_TYPE} .*, ptr (%[\w.]+)(?:,|$)")
_COPY: Final = re.compile(r"  call void @llvm\.memcpy\S*\(ptr (%\S+), ptr (%\S+), i64 (\d+),")
_MASKED: Final = re.compile(r"call .*@llvm\.masked\.(load|store|gather|scatter)\.\w+\.\w+\((.*)\)$")

_CHECK: Final = Template("""
declare i32 @dprintf(i32, ptr, ...)
declare void @abort()
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
@pirkit_report = private constant [$length x i8] c"$report"

; Elements of a mask of lanes, which lie one after the other from an address on.
define private void @pirkit_lanes(ptr %buffers, ptr %from, i64 %size, ptr %root, ptr %what,
                                  i64 %mask) {
  %none = icmp eq i64 %mask, 0
  br i1 %none, label %done, label %some
some:
  %first = call i64 @llvm.cttz.i64(i64 %mask, i1 true)
  %zeros = call i64 @llvm.ctlz.i64(i64 %mask, i1 true)
  %end = sub i64 64, %zeros
  %count = sub i64 %end, %first
  %skipped = mul i64 %first, %size
  %bytes = mul i64 %count, %size
  %begin = getelementptr i8, ptr %from, i64 %skipped
  call void @pirkit_check(ptr %buffers, ptr %begin, i64 %bytes, ptr %root, ptr %what)
  br label %done
done:
  ret void
}

; Bytes from an address on, in the buffer of the address that theirs is derived from.
define private void @pirkit_check(ptr %buffers, ptr %begin, i64 %bytes, ptr %root, ptr %what) {
entry:
  %b = ptrtoint ptr %begin to i64
  %r = ptrtoint ptr %root to i64
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %buffer ]
  %owner = phi i64 [ -1, %entry ], [ %owner1, %buffer ]
  %any = phi i1 [ false, %entry ], [ %any1, %buffer ]
  %fine = phi i1 [ false, %entry ], [ %fine1, %buffer ]
  %more = icmp ult i64 %k, $count
  br i1 %more, label %buffer, label %decide
buffer:
  %twice = mul i64 %k, 2
  %p_start = getelementptr i64, ptr %buffers, i64 %twice
  %p_size = getelementptr i64, ptr %p_start, i64 1
  %start = load i64, ptr %p_start
  %size = load i64, ptr %p_size
  %from = sub i64 %b, %start
  %fits = icmp ule i64 %bytes, %size
  %room = sub i64 %size, %bytes
  %low = icmp ule i64 %from, %room
  %inside = and i1 %fits, %low
  %r_from = sub i64 %r, %start
  %owns = icmp ult i64 %r_from, %size
  %both = and i1 %inside, %owns
  %owner1 = select i1 %owns, i64 %k, i64 %owner
  %any1 = or i1 %any, %inside
  %fine1 = or i1 %fine, %both
  %k1 = add i64 %k, 1
  br label %next
decide:
  %free = icmp slt i64 %owner, 0
  %good = select i1 %free, i1 %any, i1 %fine
  br i1 %good, label %done, label %bad
bad:
  %which = select i1 %free, i64 0, i64 %owner
  %at = mul i64 %which, 2
  %p_of = getelementptr i64, ptr %buffers, i64 %at
  %p_has = getelementptr i64, ptr %p_of, i64 1
  %of = load i64, ptr %p_of
  %has = load i64, ptr %p_has
  %byte = sub i64 %b, %of
  %written = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @pirkit_report, ptr %what, i64 %bytes,
                                               i64 %byte, i64 %owner, i64 %has)
  call void @abort()
  unreachable
done:
  ret void
}

; Bytes in the memory of a stack, which has some room.
define private void @pirkit_room(ptr %stack, ptr %from, i64 %bytes, ptr %what) {
  %data = load i64, ptr %stack, align 8
  %p_room = getelementptr i64, ptr %stack, i64 $capacity
  %room = load i64, ptr %p_room, align 8
  %address = ptrtoint ptr %from to i64
  %begin = sub i64 %address, %data
  %end = add i64 %begin, %bytes
  %behind = icmp sle i64 %end, %room
  %before = icmp sge i64 %begin, 0
  %fine = and i1 %behind, %before
  br i1 %fine, label %done, label %bad
bad:
  %written = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @pirkit_report, ptr %what, i64 %bytes,
                                               i64 %begin, i64 0, i64 %room)
  call void @abort()
  unreachable
done:
  ret void
}
""")
_REPORT: Final = (
    "error[PK0910]: %s: %ld bytes from byte %ld on of operand %ld, which has %ld bytes\n"
)


def sanitized(text: str, code: Code, name: str) -> str:
    """The text of a module with checks; ``name`` is what reports call its kernel.

    Raises InternalError for an access of a form that is not known here.
    """
    if not any(code.sizes):
        return text
    checks = _Checks(text, code, name)
    lines = [new for line in text.splitlines() for new in checks.line(line)]
    count = len(code.sizes) + 1 + len(checks.tables)
    report, length = _bytes(_REPORT)
    room = STACK.index("capacity")
    shared = _CHECK.substitute(count=count, report=report, length=length, capacity=room)
    for line in lines:  # a module declares a function once
        shared = shared.replace(f"{line}\n", "") if line.startswith("declare") else shared
    return "\n".join([*lines, *checks.constants.values(), shared]) + "\n"


class _Checks:
    """Instruments the lines of a module in order."""

    def __init__(self, text: str, code: Code, name: str) -> None:
        self.code, self.name = code, name
        self.own = set(_DEFINE.findall(text))
        self.tables = [(n, int(count) * _BYTES[kind]) for n, count, kind in _NUMBERS.findall(text)]
        self.constants: dict[str, str] = {}
        self.roots: dict[str, str] = {}
        self.stack: set[str] = set()
        self.held: dict[str, str] = {}
        """By the address of the memory of a stack of a loop: where that stack is."""
        self.number = 0
        self.entered = False

    def line(self, line: str) -> list[str]:
        """The lines that replace a line."""
        if self.entered:
            self.entered = False
            first = self.entry()
            return [line, *first] if line == "entry:" else [*first, *self.line(line)]
        if defined := _DEFINE.match(line):
            self.roots, self.stack = dict.fromkeys(_MOVED.findall(line), "null"), set()
            self.held = {}
            self.entered = defined[1] == f"@{self.code.symbol}"
            return [line if self.entered else line.replace("(", "(ptr %pirkit_buffers, ", 1)]
        if made := _GEP.match(line):
            self.roots[made[1]] = self.roots.get(made[2], made[2])
        elif made := _TABLE.match(line):
            if self.roots.get(made[2], made[2]) != "%args":
                self.held[made[1]] = made[2]
        elif made := _COPY.match(line):
            return [*(self.copied(a, made[3], line) for a in (made[1], made[2])), line]
        elif made := _STACK.match(line):
            self.stack.add(made[1])
        elif call := _CALL.search(line):
            if call[2] in self.own:
                return [_CALL.sub(r"\1\2(ptr %pirkit_buffers, ", line)]
            if masked := _MASKED.search(line):
                return [*self.masked(masked[1], _split(masked[2]), line), line]
        elif found := _LOAD.match(line) or _STORE.match(line):
            return [*self.plain(found[1], found[2], line), line]
        elif line.startswith("  store") or " = load " in line:
            raise InternalError(f"the sanitizer does not know `{line.strip()}`")
        return [line]

    def plain(self, type_: str, address: str, line: str) -> list[str]:
        lanes, element = _vector(type_)
        if element == "ptr" or self.roots.get(address, address) in self.stack:
            return []
        return [
            f"  call void @pirkit_check(ptr %pirkit_buffers, ptr {address},"
            f" i64 {lanes * _BYTES[element]}, {self.tail(address, line)})"
        ]

    def copied(self, address: str, bytes_: str, line: str) -> str:
        """The check of one side of a copy."""
        tail = self.tail(address, line)
        stack = self.held.get(self.roots.get(address, address))
        if stack is not None:
            what = tail.partition(", ")[2]
            return f"  call void @pirkit_room(ptr {stack}, ptr {address}, i64 {bytes_}, {what})"
        given = f"ptr %pirkit_buffers, ptr {address}, i64 {bytes_}, {tail}"
        return f"  call void @pirkit_check({given})"

    def masked(self, form: str, arguments: list[str], line: str) -> list[str]:
        """The check of an access under a mask; lanes of a gather or scatter one by one."""
        stores = form in ("store", "scatter")
        pointer, _, mask = arguments[1:4] if stores else arguments[:3]
        found = re.match(_TYPE, arguments[0] if stores else line.partition(" call ")[2])
        assert found is not None
        lanes, element = _vector(found[1])
        size, address = _BYTES[element], pointer.rpartition(" ")[2]
        if form in ("load", "store"):
            bits, wide = self.fresh(), self.fresh()
            lines = [f"  {bits} = bitcast {mask} to i{lanes}"]
            if lanes == 64:  # 64 bytes of a register: there is nothing to extend
                wide = bits
            else:
                lines.append(f"  {wide} = zext i{lanes} {bits} to i64")
            return [*lines, self.lanes(address, size, address, wide, line)]
        lines: list[str] = []
        for lane in range(lanes):
            at, on, wide = self.fresh(), self.fresh(), self.fresh()
            lines += [
                f"  {at} = extractelement {pointer}, i64 {lane}",
                f"  {on} = extractelement {mask}, i64 {lane}",
                f"  {wide} = zext i1 {on} to i64",
                self.lanes(at, size, address, wide, line),
            ]
        return lines

    def lanes(self, address: str, size: int, derived: str, mask: str, line: str) -> str:
        tail = self.tail(derived, line)
        given = f"ptr %pirkit_buffers, ptr {address}, i64 {size}, {tail}, i64 {mask}"
        return f"  call void @pirkit_lanes({given})"

    def tail(self, address: str, line: str) -> str:
        """The root of an address, and the constant that describes the access."""
        text = f"{self.name}, `{line.strip()}`"
        data, length = _bytes(text)
        name = f"@pirkit_what{len(self.constants)}"
        constant = f'{name} = private constant [{length} x i8] c"{data}"'
        known = self.constants.setdefault(text, constant)
        return f"ptr {self.roots.get(address, address)}, ptr {known.partition(' ')[0]}"

    def fresh(self) -> str:
        self.number += 1
        return f"%pirkit_t{self.number}"

    def entry(self) -> list[str]:
        """The table of buffers, at the start of the function that is called from outside."""
        sizes = (*self.code.sizes, self.code.scratch)
        lines = [
            f"  %pirkit_buffers = alloca [{2 * (len(sizes) + len(self.tables))} x i64], align 8",
            f"  %pirkit_shift = mul i64 %slot, {self.code.scratch}",
        ]
        for k, size in enumerate(sizes):
            shift = "%pirkit_shift" if k == len(sizes) - 1 else "0"
            if size < 0:
                number = size_from_words(size)
                lines += [*self.word(k, "f", number), *self.word(k, "s", number + 1)]
                shift, size = f"%pirkit_f{k}", f"%pirkit_s{k}"
            lines += [
                f"  %pirkit_a{k} = getelementptr i64, ptr %args, i64 {k}",
                f"  %pirkit_l{k} = load i64, ptr %pirkit_a{k}, align 8",
                f"  %pirkit_b{k} = add i64 %pirkit_l{k}, {shift}",
                f"  %pirkit_p{k} = getelementptr i64, ptr %pirkit_buffers, i64 {2 * k}",
                f"  store i64 %pirkit_b{k}, ptr %pirkit_p{k}, align 8",
                f"  %pirkit_n{k} = getelementptr i64, ptr %pirkit_p{k}, i64 1",
                f"  store i64 {size}, ptr %pirkit_n{k}, align 8",
            ]
        for k, (name, size) in enumerate(self.tables, len(sizes)):
            lines += [
                f"  %pirkit_p{k} = getelementptr i64, ptr %pirkit_buffers, i64 {2 * k}",
                f"  store ptr {name}, ptr %pirkit_p{k}, align 8",
                f"  %pirkit_n{k} = getelementptr i64, ptr %pirkit_p{k}, i64 1",
                f"  store i64 {size}, ptr %pirkit_n{k}, align 8",
            ]
        return lines

    def word(self, operand: int, name: str, number: int) -> list[str]:
        """Load a number of the call, which is in the last operand."""
        here, last = f"%pirkit_{name}{operand}", len(self.code.sizes) - 1
        return [
            f"  {here}a = getelementptr i64, ptr %args, i64 {last}",
            f"  {here}w = load ptr, ptr {here}a, align 8",
            f"  {here}p = getelementptr i64, ptr {here}w, i64 {number}",
            f"  {here} = load i64, ptr {here}p, align 8",
        ]


def _vector(type_: str) -> tuple[int, str]:
    """Lanes and element of a type."""
    count, _, element = type_.strip("<>").rpartition(" x ")
    return int(count or 1), element


def _split(arguments: str) -> list[str]:
    """Arguments of a call; commas inside of brackets do not end one."""
    found: list[str] = re.findall(r"(?:[^,<(]|<[^<>]*>|\([^()]*\))+", arguments)
    return [text.strip() for text in found]


def _bytes(text: str) -> tuple[str, int]:
    """A constant of LLVM and its length."""
    data = text.encode() + b"\0"
    return "".join(["\\" + data[k : k + 1].hex() for k in range(len(data))]), len(data)
