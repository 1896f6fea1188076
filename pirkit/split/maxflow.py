"""Minimum cut of a network: maximum flow by blocking flows (Dinic, 1970), in exact integers."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct, field

INFINITE: Final = 1 << 200
"""Larger than any sum of the finite capacities of a network."""


class Network(Struct):
    """A directed graph with capacities; nodes are numbered from 0, edges from 0 in pairs.

    Edge ``2 k + 1`` is the reverse of edge ``2 k``, and its capacity is the flow through that edge.
    """

    heads: list[int] = field(default_factory=list[int])
    """The node to which each edge leads."""
    room: list[int] = field(default_factory=list[int])
    """The residual capacity of each edge."""
    edges: list[list[int]] = field(default_factory=list[list[int]])
    """The edges that leave each node."""

    def node(self) -> int:
        """Add a node; returns its number."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge."""
        for start, end, room in ((tail, head, capacity), (head, tail, 0)):
            self.edges[start].append(len(self.heads))
            self.heads.append(end)
            self.room.append(room)

    def sink_side(self, source: int, sink: int) -> frozenset[int]:
        """The nodes on the sink side of a minimum cut; of several, the cut nearest to the sink.

        Uses up the capacities, so it can be called once.
        """
        while levels := self._levels(source, sink):
            following = [0] * len(self.edges)
            while self._augment(source, sink, levels, following):
                pass
        return frozenset(self._reaching(sink))

    def _levels(self, source: int, sink: int) -> list[int]:
        """Residual distances from the source; empty if the sink cannot be reached."""
        levels = [-1] * len(self.edges)
        levels[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self.edges[node]:
                head = self.heads[edge]
                if self.room[edge] and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels if levels[sink] >= 0 else []

    def _augment(self, source: int, sink: int, levels: list[int], following: list[int]) -> bool:
        """Send flow along one shortest path; False if there is none left.

        ``following`` is the next edge to try at each node, so that no dead end is tried twice.
        """
        way: list[int] = []
        node = source
        while node != sink:
            edges = self.edges[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                head = self.heads[edge]
                if self.room[edge] and levels[head] == levels[node] + 1:
                    way.append(edge)
                    node = head
                    break
                following[node] += 1
            else:
                if not way:
                    return False
                node = self.heads[way.pop() ^ 1]
                following[node] += 1
        amount = min(self.room[edge] for edge in way)
        for edge in way:
            self.room[edge] -= amount
            self.room[edge ^ 1] += amount
        return True

    def _reaching(self, sink: int) -> set[int]:
        """The nodes from which the sink can be reached in the residual network."""
        found = {sink}
        queue = deque([sink])
        while queue:
            for edge in self.edges[queue.popleft()]:
                tail = self.heads[edge]
                if self.room[edge ^ 1] and tail not in found:
                    found.add(tail)
                    queue.append(tail)
        return found
