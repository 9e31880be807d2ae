"""Connected components: every node gets the least node that it is connected with, as edges come in.

::

    edges ──by u──▶ thin (any number of replicas)          ──▶ label (one task)
                    drops edges whose ends its task has        the whole graph's components,
                    connected already: a forest is left        from at most n - 1 edges of each task
"""

from examples.components.sets import joined, relabelled
from towpath import faust

PARTITIONS = 4

app = faust.App("components", topic_partitions=PARTITIONS)


class Edge(faust.Record):
    """An edge between two nodes; which is which does not matter."""

    u: int
    v: int


class Component(faust.Record):
    """The least node that a node is connected with."""

    node: int
    component: int


edges = app.topic("graph-edges", value_type=Edge)
forest_edges = app.topic("graph-forest", value_type=Edge, partitions=1)
components = app.topic("graph-components", value_type=Component)

forest = app.Table("forest", key_type=int, value_type=list[int], help="Each task's own: node → parent, size of a root.")
sets = app.Table("sets", key_type=int, value_type=list[int], help="Node → component, next node of the component.")


@app.agent(edges)
async def thin(stream):
    """Pass on an edge that joins two trees of the task's forest."""
    async for edge in stream.group_by(Edge.u):
        if joined(forest, edge.u, edge.v):
            await forest_edges.send(key="forest", value=edge)


@app.agent(forest_edges)
async def label(stream):
    """Say of each node whose component has changed what it is now."""
    async for edge in stream:
        for node, component in relabelled(sets, edge.u, edge.v):
            await components.send(key=node, value=Component(node=node, component=component))
