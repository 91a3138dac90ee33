"""A world's causal graph as a picture."""

from pathlib import Path

from levers.errors import InvalidSettingError, to_install
from levers.worlds.scm import OUTCOME, World, true_parents

_OUTCOME_COLOUR, _PARENT_COLOUR, _OTHER_COLOUR, _EDGE_COLOUR = "#E69F00", "#56B4E9", "#DDDDDD", "#777777"
_HIDDEN_COLOUR = "#CC79A7"


def draw_graph(world: World, path: str | Path) -> Path:
    """Draw the causal graph to a file (png, svg or pdf by its ending), causes left of effects.

    The outcome is orange, its observed parents blue, hidden variables purple. Needs the `figures` extra.

    >>> import tempfile
    >>> from levers.worlds.named import factory_line
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_graph(factory_line(), Path(folder) / "line.svg").stat().st_size > 1000
    True
    """
    import networkx as nx  # takes a while to import

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidSettingError(f"drawing needs matplotlib: {to_install('figures')}") from error
    target = Path(path)
    if target.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise InvalidSettingError(f"the picture's name must end in .png, .svg or .pdf, not {target.name!r}")
    graph = world.graph.copy()
    for generation, nodes in enumerate(nx.topological_generations(graph)):
        for node in nodes:
            graph.nodes[node]["generation"] = generation
    places = nx.multipartite_layout(graph, subset_key="generation")
    parents = true_parents(world)
    colours = dict.fromkeys(graph, _OTHER_COLOUR) | dict.fromkeys(parents, _PARENT_COLOUR)
    colours |= {OUTCOME: _OUTCOME_COLOUR, **{node.name: _HIDDEN_COLOUR for node in world.hidden}}
    widest = max(len(name) for name in graph)
    size = (max(6.0, 0.16 * widest * (1 + max(g for _, g in graph.nodes(data="generation")))), 4 + 0.12 * len(graph))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    shades = [colours[name] for name in graph]
    nx.draw_networkx(graph, places, ax=axes, node_color=shades, node_size=700, font_size=8, edge_color=_EDGE_COLOUR)
    axes.margins(0.15)
    axes.set_axis_off()
    figure.savefig(target)
    return target
