"""All interleavings of a module of LLVM IR: an explicit-state search over its threads.

The text itself is interpreted, so no model could differ from the code. A step of a thread is one
access of memory or one call of pthreads, and what follows it in registers alone. Memory is
sequentially consistent: weaker orders are not searched. Two plain accesses of a place that could
both come next, one of them a store, are a data race.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from pirkit.runtime.native.pool_ir import FIELDS

_BINARY: Final = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b,
    "sgt": lambda a, b: a > b, "uge": lambda a, b: a >= b,
}  # fmt: skip
_ACCESS: Final = re.compile(
    r"load (?P<l>atomic )?\w+, ptr (?P<from>\S+?)[ ,].*"
    r"|store (?P<s>atomic )?\w+ (?P<value>\S+), ptr (?P<to>\S+?)[ ,].*"
    r"|atomicrmw (?P<how>\w+) ptr (?P<at>\S+), i64 (?P<by>\S+) .*"
    r"|cmpxchg ptr (?P<place>\S+), i64 (?P<old>\S+), i64 (?P<new>\S+) .*"
)
_LOCAL_CALLS: Final = ("@sched_yield", "@llvm", "@pthread_mutex_init", "@pthread_cond_init")
MUTEX: Final = "mutex"
WAITING: Final = "waiting"
"""Names of cells of memory that no pointer reaches."""


class Frame(NamedTuple):
    function: str
    block: str
    at: int
    registers: tuple[tuple[str, Any], ...]


Thread = tuple[Frame, ...]
Memory = dict[Any, Any]
State = tuple[tuple[Thread, ...], tuple[tuple[Any, Any], ...]]


class FaultError(Exception):
    """What must not happen in any interleaving."""


class Machine:
    """Threads of a module, which begins with ``@main``. Functions are called with names as ``ptr``.

    The work of a run, ``@job``, counts how often it computes each block.
    """

    def __init__(self, text: str) -> None:
        self.code: dict[tuple[str, str], list[str]] = {}
        self.parameters: dict[str, list[str]] = {}
        form = r"define [^@]*(@\w+)\(([^)]*)\) \{\n(.*?)\n\}"
        for name, given, body in re.findall(form, re.sub(r",\n\s+", ", ", text), re.DOTALL):
            self.parameters[name] = re.findall(r"%\w+", given)
            lines = self.code.setdefault((name, "entry"), [])
            for line in map(str.strip, body.splitlines()):
                if line.endswith(":"):
                    lines = self.code.setdefault((name, line[:-1]), [])
                elif line:
                    lines.append(line)
        live = {key: frozenset[str]() for key in self.code}
        while (found := {k: self._needed(*k, 0, live) for k in live}) != live:
            live = found
        self.needed = cache(lambda f, block, at: self._needed(f, block, at, live))

    def _needed(self, f: str, block: str, at: int, live: Any) -> frozenset[str]:
        """The registers that are read from an instruction on, before anything writes them."""
        need = frozenset[str]()
        for line in reversed(self.code[f, block][at:]):
            target, _, rest = line.rpartition(" = ")
            for label in re.findall(r"label %(\w+)", rest):
                need |= live[f, label]
            need = (need - {target}) | set(re.findall(r"%\w+", rest))
        return need

    def start(self, memory: Memory) -> State:
        return (self.local((self.entered("@main", ()),)),), _frozen(memory)

    def entered(self, f: str, given: Any) -> Frame:
        return Frame(f, "entry", 0, tuple(zip(self.parameters[f], given, strict=True)))

    def local(self, thread: Thread) -> Thread:
        """The thread at its next access of memory; registers that nobody reads are forgotten."""
        while thread:
            f, block, at, held = thread[-1]
            registers = dict(held)
            while True:
                target, _, text = self.code[f, block][at].rpartition(" = ")
                words = text.replace(",", "").split()
                values = [_value(w, registers) for w in words]
                at += 1
                if words[0] == "br":
                    labels = re.findall(r"label %(\w+)", text)
                    label = labels[0] if len(labels) == 1 or values[2] else labels[1]
                    block, at, before, old = label, 0, block, dict(registers)
                    while "= phi" in (line := self.code[f, block][at]):
                        chosen = re.search(rf"\[ (\S+), %{before} \]", line)
                        assert chosen is not None
                        registers[line.partition(" ")[0]] = _value(chosen[1], old)
                        at += 1
                elif words[0] == "getelementptr":
                    scale = 8 if words[1] in ("i64", "ptr") else 1
                    registers[target] = values[3] + scale * values[5]
                elif words[0] == "extractvalue":
                    registers[target] = values[-2][1]
                elif words[0] == "select":
                    registers[target] = values[4] if values[2] else values[6]
                elif words[0] == "icmp" or words[0] in _BINARY:
                    how = words[1] if words[0] == "icmp" else words[0]
                    registers[target] = _BINARY[how](values[-2], values[-1])
                elif words[0] != "call" or not _called(text, registers)[0].startswith(_LOCAL_CALLS):
                    break
            at -= 1
            here = Frame(f, block, at, self._kept(f, block, at, registers))
            name, given = _called(text, registers) if words[0] == "call" else ("", [])
            if words[0] == "ret":
                value = values[2] if len(values) > 2 else 0
                thread = self.behind(thread[:-1], value) if thread[:-1] else ()
            elif name in self.parameters:
                thread = (*thread[:-1], here, self.entered(name, given))
            else:
                return (*thread[:-1], here)
        return thread

    def _kept(self, f: str, block: str, at: int, registers: dict[str, Any]) -> Any:
        need = self.needed(f, block, at)
        return tuple(sorted((k, v) for k, v in registers.items() if k in need))

    def behind(self, thread: Thread, value: Any) -> Thread:
        """The thread behind the instruction at which it is, which gives a value."""
        f, block, at, held = thread[-1]
        target = self.code[f, block][at].rpartition(" = ")[0]
        kept = self._kept(f, block, at + 1, {**dict(held), target: value})
        return (*thread[:-1], Frame(f, block, at + 1, kept))

    def next(self, thread: Thread) -> tuple[str, dict[str, Any]]:
        """The next instruction of a thread, and the operands of an access by name."""
        f, block, at, held = thread[-1]
        text = self.code[f, block][at].rpartition(" = ")[2]
        found, registers = _ACCESS.match(text), dict(held)
        given = found.groupdict() if found else {}
        return text, {k: _value(v, registers) for k, v in given.items() if v is not None}

    def steps(self, state: State) -> Iterator[State]:
        """The states that may follow. Raises FaultError."""
        threads, cells = state
        self.refuse_races(threads)
        for k, thread in enumerate(threads):
            memory, made = dict(cells), list(threads)
            if not thread:
                continue
            text, given = self.next(thread)
            value: Any = self.access(given, memory)
            if text.startswith("call"):
                name, arguments = _called(text, dict(thread[-1].registers))
                value = self.call(name, arguments, k, memory, made)
            if value is not None:
                made[k] = self.local(self.behind(thread, value))
            elif _frozen(memory) == cells:
                continue  # it has to wait
            yield tuple(made), _frozen(memory)

    def access(self, given: dict[str, Any], memory: Memory) -> Any:
        match given:
            case {"from": place}:
                return memory.get(place, 0)
            case {"to": place, "value": value}:
                memory[place] = value
            case {"how": how, "at": place, "by": by}:
                old = memory.get(place, 0)
                memory[place] = _BINARY[how](old, by)
                return old
            case {"place": place, "old": old, "new": new}:
                was = memory.get(place, 0)
                memory[place] = new if was == old else was
                return was, was == old
            case _:
                pass
        return 0

    def call(self, name: str, given: Any, k: int, memory: Memory, threads: list[Thread]) -> Any:
        """The value of a call of pthreads or of the job; None where the thread has to wait."""
        free, waits = memory.get(MUTEX, -1) < 0, (WAITING, k)
        match name:
            case "@pthread_mutex_lock" if free:
                memory[MUTEX] = k
            case "@pthread_mutex_unlock":
                memory[MUTEX] = -1
            case "@pthread_cond_wait" if waits not in memory:
                memory[MUTEX], memory[waits] = -1, 1
                return None
            case "@pthread_cond_wait" if free and not memory[waits]:
                del memory[waits]
                memory[MUTEX] = k
            case "@pthread_cond_broadcast":
                memory |= {c: 0 for c in memory if isinstance(c, tuple) and c[0] == WAITING}
            case "@pthread_create":
                memory[given[0]] = len(threads)
                threads.append(self.local((self.entered(given[2], given[3:]),)))
            case "@pthread_join" if not threads[given[0]]:
                pass
            case "@job":
                run, _, first, end = given
                for block in range(first, end):
                    memory["done", run, block] = memory.get(("done", run, block), 0) + 1
            case "@all_done":
                run, blocks = given
                counts = [memory.get(("done", run, block), 0) for block in range(blocks)]
                if counts != [1] * blocks:
                    raise FaultError(f"run {run} returns, and its blocks were computed {counts}")
                for k, thread in enumerate(threads):
                    seen = dict(thread[-1].registers).get("%seen") if thread else None
                    if memory.get((WAITING, k)) and seen != memory[FIELDS["generation"]]:
                        raise FaultError("a wake-up is lost")
            case _:
                return None
        return 0

    def refuse_races(self, threads: tuple[Thread, ...]) -> None:
        """Raises FaultError for a plain access next to another one of the same place."""
        found: dict[Any, list[tuple[bool, bool]]] = {}
        for thread in filter(None, threads):
            _, given = self.next(thread)
            place = given.get("from", given.get("to", given.get("at", given.get("place"))))
            is_plain = ("from" in given or "to" in given) and not ({"l", "s"} & given.keys())
            found.setdefault(place, []).append((is_plain, "from" not in given))
        for place, accesses in found.items():
            plain, stores = (any(a[i] for a in accesses) for i in (0, 1))
            if place is not None and len(accesses) > 1 and plain and stores:
                raise FaultError(f"a data race at byte {place}")


def explore(machine: Machine, start: State) -> int:
    """The number of states. Raises FaultError where one is wrong, or none leads to the end."""
    before: dict[State, list[State]] = {start: []}
    todo, ends = [start], list[State]()
    while todo:
        state = todo.pop()
        if not any(state[0]):
            ends.append(state)
        for following in machine.steps(state):
            if following not in before:
                before[following] = []
                todo.append(following)
            before[following].append(state)
    good = set(ends)
    while ends:
        fresh = {s for s in before[ends.pop()] if s not in good}
        good |= fresh
        ends += fresh
    if len(good) < len(before):
        raise FaultError(f"{len(before) - len(good)} states never come to the end")
    return len(before)


def _frozen(memory: Memory) -> tuple[tuple[Any, Any], ...]:
    return tuple(sorted(memory.items(), key=repr))


def _value(word: str, registers: dict[str, Any]) -> Any:
    if word.startswith("%"):
        return registers.get(word)
    return int(word) if word.lstrip("-").isdigit() else 0 if word == "null" else word


def _called(text: str, registers: dict[str, Any]) -> tuple[str, list[Any]]:
    """The function of a call, and its arguments."""
    found = re.search(r"([@%][\w.]+)\((.*)\)", text)
    assert found is not None
    given = [_value(a.split()[-1], registers) for a in found[2].split(",") if a.strip()]
    return _value(found[1], registers), given
