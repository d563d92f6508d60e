"""Ops that move elements without changing them.

Reshapes need no formula a case: the same NumPy reshape, run on index numbers,
says which index of which axis went where.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prunus.core.graph.facts import Balance, Couple, Fact, Free, Freeze, Index, Sized
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, identity, rule


@rule("reshape")
def reshape(node: Node, view: View) -> Iterator[Fact]:
    """Same elements in the same order; only axes whose sizes multiply to the same are involved.

    An axis that is split keeps its channels on the longest part: what goes, goes
    from the same place of every run. (Channel shuffle, heads and radix splits all
    have a short axis that counts runs and a long one that holds channels.) A
    backend that knows better says so with the attribute `carrier`, an output axis.

    A second input, where there is one, gives the shape.
    """
    x, (y,) = node.inputs[0], node.outputs
    reached: set[Dim] = set()
    for ins, outs in segments(view.shape(x), view.shape(y)):
        before, after = [Dim(x, axis) for axis in ins], [Dim(y, axis) for axis in outs]
        for fact in _segment(node, view, before, after):
            yield fact
            if isinstance(fact, Couple):
                reached.add(fact.b)
    for axis in range(len(view.shape(y))):
        if len(node.inputs) == 1:
            yield Sized("shape", Dim(y, axis), axis)
        elif Dim(y, axis) in reached:
            yield Couple(Dim(node.inputs[1], axis), Dim(y, axis))
        elif view.flexible(Dim(node.inputs[1], axis)):
            because = f"{node} takes its length for an axis that stays"
            yield Freeze(Dim(node.inputs[1], axis), because)


def segments(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest runs of old and new axes that hold the same number of elements."""
    i = j = 0
    while i < len(old) or j < len(new):
        ins: list[int] = []
        outs: list[int] = []
        left = right = 1
        while True:
            if left <= right and i < len(old) and (left < right or not ins):
                ins.append(i)
                left *= old[i]
                i += 1
            elif j < len(new) and (right < left or not outs):
                outs.append(j)
                right *= new[j]
                j += 1
            elif left != right and i < len(old):
                ins.append(i)
                left *= old[i]
                i += 1
            else:
                break
        yield ins, outs


def _segment(node: Node, view: View, ins: list[Dim], outs: list[Dim]) -> Iterator[Fact]:
    live = [dim for dim in ins if view.flexible(dim)]
    lengths = [view.shape(dim.tensor)[dim.axis] for dim in ins]
    if not live:
        long_ins, long_outs = ([d for d in dims if _size(view, d) > 1] for dims in (ins, outs))
        if len(long_ins) == len(long_outs) == 1:  # so that why it stays is told further on
            yield Couple(long_ins[0], long_outs[0])
        return
    if len(live) > 1:
        live.sort(key=lambda dim: -view.shape(dim.tensor)[dim.axis])
        if view.shape(live[0].tensor)[live[0].axis] > 1:
            for other in live[1:]:
                yield Freeze(other, because=f"{node} folds it together with another axis")
    carrier = live[0]
    if not outs:
        yield Freeze(carrier, because=f"{node} drops this axis of length 1")
        return
    where = ins.index(carrier)
    shape = [-1 if k == where else 1 for k in range(len(ins))]
    index = np.arange(lengths[where]).reshape(shape)
    grid = np.broadcast_to(index, lengths).reshape([_size(view, dim) for dim in outs])
    varies = [k for k in range(len(outs)) if _varies(grid, k)]
    # Where indices are one channel already (unfolded, repeated), an axis of such is no choice.
    atoms = view.atoms_of(carrier)[grid]
    varies = [k for k in varies if _varies(atoms, k)] or varies
    if not varies:  # a single channel: any axis of length 1 may stand for it
        varies = [k for k in range(len(outs)) if grid.shape[k] == 1]
        if not varies:
            yield Freeze(carrier, because=f"{node} stretches a single channel over many")
            return
        varies = varies[:1]
    yield from _carry(node, view, carrier, outs, grid, varies)


def _carry(
    node: Node, view: View, carrier: Dim, outs: list[Dim], grid: Index, varies: list[int]
) -> Iterator[Fact]:
    """Couple `carrier` with the longest of the axes that its index runs along."""
    known = [k for k in varies if outs[k].axis == node.attrs.get("carrier")]
    if len(varies) > 1 and not known and _splits_heads(view, carrier, outs):
        sizes = " of ".join(str(_size(view, outs[k])) for k in varies)
        yield Freeze(carrier, because=f"{node} splits it into {sizes}: heads stay whole")
        return
    target = max(varies, key=lambda k: (grid.shape[k], k))
    target = known[0] if known else target
    places = np.broadcast_to(
        np.arange(grid.shape[target]).reshape([-1 if k == target else 1 for k in range(grid.ndim)]),
        grid.shape,
    )
    pairs = np.unique(np.stack([grid.ravel(), places.ravel()]), axis=1)
    yield Couple(carrier, outs[target], pairs[0], pairs[1])


def _splits_heads(view: View, carrier: Dim, outs: list[Dim]) -> bool:
    """Tell whether tokens (.., n, channels) are split to (.., n, heads, channels)."""
    rank = len(view.shape(carrier.tensor))
    tokens = rank >= 3 and not view.is_weight(carrier.tensor)
    return tokens and carrier.axis == rank - 1 and len(outs) > 1


def _size(view: View, dim: Dim) -> int:
    return view.shape(dim.tensor)[dim.axis]


def _varies(grid: Index, axis: int) -> bool:
    return grid.shape[axis] > 1 and bool((np.take(grid, [0], axis) != grid).any())


@rule("transpose")
def transpose(node: Node, _view: View) -> Iterator[Fact]:
    """Axis k of the output is axis `order[k]` of the input."""
    (x,), (y,) = node.inputs, node.outputs
    for axis, source in enumerate(node.attrs["order"]):
        yield Couple(Dim(x, source), Dim(y, axis))


@rule("concat")
def concat(node: Node, view: View) -> Iterator[Fact]:
    """Along the joined axis each input is a run of the output; other axes are shared."""
    (y,) = node.outputs
    joined, offset = node.attrs["axis"], 0
    for x in node.inputs:
        yield from identity(x, y, len(view.shape(x)), skip=(joined,))
        length = view.shape(x)[joined]
        yield Couple(Dim(x, joined), Dim(y, joined), None, np.arange(offset, offset + length))
        offset += length


@rule("split")
def split(node: Node, view: View) -> Iterator[Fact]:
    """Each output is a run of the input; equal runs are balanced, for code may ask for "halves"."""
    (x,) = node.inputs
    axis, offset = node.attrs["axis"], 0
    lengths = [view.shape(y)[axis] for y in node.outputs]
    for position, (y, length) in enumerate(zip(node.outputs, lengths, strict=True)):
        run = np.arange(offset, offset + length)
        yield from identity(x, y, len(view.shape(x)), skip=(axis,))
        yield Couple(Dim(x, axis), Dim(y, axis), run, None)
        yield Sized("sizes", Dim(y, axis), position)
        offset += length
    # Runs of one channel each are equal as long as none of them goes.
    alike = len(lengths) > 1 and len(set(lengths)) == 1 and lengths[0] > 1
    if alike and view.flexible(Dim(x, axis)):
        yield Balance(Dim(x, axis), len(lengths), firm=False)


@rule("slice")
def slice_(node: Node, view: View) -> Iterator[Fact]:
    """y = x[start : stop : step] along `axis`.

    With a step, the runs of `step` neighbours stay whole, so that every step-th
    channel is still the same channel. Equal parts are balanced, as in a split.
    """
    (x,), (y,) = node.inputs, node.outputs
    axis, start, stop, step = (node.attrs[key] for key in ("axis", "start", "stop", "step"))
    dim, length = Dim(x, axis), view.shape(x)[axis]
    yield from identity(x, y, len(view.shape(x)), skip=(axis,))
    taken = np.arange(start, stop, step)
    yield Couple(dim, Dim(y, axis), taken, None)
    if not view.flexible(dim):
        return
    if step == 1:
        yield from _bounds(node, dim, length)
        width = stop - start
        if 1 < width < length and length % width == 0 and start % width == 0:
            yield Balance(dim, length // width, firm=False)
    elif length % step or start >= step or stop <= length - step:
        yield Freeze(dim, because=f"{node} takes every {step}th channel of {length}, from {start}")
    else:
        yield Couple(dim, dim, np.arange(length), np.arange(length) // step * step)


def _bounds(node: Node, dim: Dim, length: int) -> Iterator[Fact]:
    """A bound counts what lies before it, or, if it is among `from_end`, what lies behind it."""
    for attr in ("start", "stop"):
        number = node.attrs[attr]
        if attr in node.attrs.get("from_end", ()):
            yield Sized(attr, dim, index=np.arange(number, length))
        elif number:
            yield Sized(attr, dim, index=np.arange(number))


@rule("take")
def take(node: Node, view: View) -> Iterator[Fact]:
    """y[k] = x[order[k]] along `axis`, for an order that stays right when channels go (a flip)."""
    (x,), (y,) = node.inputs, node.outputs
    axis = node.attrs["axis"]
    yield from identity(x, y, len(view.shape(x)), skip=(axis,))
    yield Couple(Dim(x, axis), Dim(y, axis), np.asarray(node.attrs["order"]), None)


@rule("roll")
def roll(node: Node, view: View) -> Iterator[Fact]:
    """y[k] = x[k - shift] along `axis`; what wraps around is `shift` channels by number.

    Forwards the last ones wrap around, backwards the first ones. More than once
    around, it depends on the length which ones do.
    """
    (x,), (y,) = node.inputs, node.outputs
    axis = node.attrs["axis"]
    length = view.shape(x)[axis]
    shift = node.attrs["shift"]
    yield from identity(x, y, len(view.shape(x)), skip=(axis,))
    yield Couple(Dim(x, axis), Dim(y, axis), np.arange(length), np.roll(np.arange(length), -shift))
    if shift and view.flexible(Dim(x, axis)):
        wraps = np.arange(length)[-shift:] if shift > 0 else np.arange(length)[:-shift]
        because = f"{node} wraps {len(wraps)} channels around by number"
        yield Freeze(Dim(x, axis), because, index=wraps)


@rule("select")
def select(node: Node, view: View) -> Iterator[Fact]:
    """y = x[.., index, ..]: the axis is gone, and the others move up."""
    (x,), (y,) = node.inputs, node.outputs
    axis = node.attrs["axis"]
    if view.flexible(Dim(x, axis)):
        yield Freeze(Dim(x, axis), because=f"{node} picks one channel by number")
    for other in range(len(view.shape(x))):
        if other != axis:
            yield Couple(Dim(x, other), Dim(y, other - (other > axis)))


@rule("expand")
def expand(node: Node, view: View) -> Iterator[Fact]:
    """Repeats axes of length 1; such an axis of the output may have any length.

    A second input, where there is one, gives the shape.
    """
    x, (y,) = node.inputs[0], node.outputs
    lead = len(view.shape(y)) - len(view.shape(x))
    for axis, length in enumerate(view.shape(y)):
        own = Dim(x, axis - lead)
        same = axis >= lead and view.shape(x)[own.axis] == length
        if same:
            yield Couple(own, Dim(y, axis))
        elif axis >= lead and view.flexible(own):
            yield Freeze(own, because=f"{node} stretches a single channel over many")
        if len(node.inputs) == 2:
            yield Couple(Dim(node.inputs[1], axis), Dim(y, axis))
            continue
        if not same:
            yield Free(Dim(y, axis))
        yield Sized("shape", Dim(y, axis), axis)


@rule("fill")
def fill(node: Node, view: View) -> Iterator[Fact]:
    """Zeros, ones, one number, or noise: any length will do."""
    (y,) = node.outputs
    for axis in range(len(view.shape(y))):
        yield Free(Dim(y, axis))
        yield Sized("shape", Dim(y, axis), axis)


@rule("constant")
def constant(_node: Node, _view: View) -> Iterator[Fact]:
    """Numbers that follow from lengths (arange, a grid of positions): nothing here may change."""
    yield from ()


@rule("pad")
def pad(node: Node, view: View) -> Iterator[Fact]:
    """Adds `before[k]` and `after[k]` elements to axis k; they are no channels and stay."""
    (x,), (y,) = node.inputs, node.outputs
    for axis, (before, after) in enumerate(node.attrs["amounts"]):
        if not before and not after:
            yield Couple(Dim(x, axis), Dim(y, axis))
        elif view.flexible(Dim(x, axis)):
            if not node.attrs["constant"]:
                yield Freeze(Dim(x, axis), because=f"{node} pads with copies of other channels")
                continue
            place = np.arange(before, before + view.shape(x)[axis])
            yield Couple(Dim(x, axis), Dim(y, axis), None, place)


@rule("repeat")
def repeat(node: Node, view: View) -> Iterator[Fact]:
    """Axis k of the output is the axis of the input `times[k]` times over."""
    (x,), (y,) = node.inputs, node.outputs
    times = node.attrs["times"]
    lead = len(times) - len(view.shape(x))
    for axis, count in enumerate(times):
        if axis >= lead:
            length = view.shape(x)[axis - lead]
            source = np.tile(np.arange(length), count)
            yield Couple(Dim(x, axis - lead), Dim(y, axis), source, np.arange(length * count))


@rule("repeat_each")
def repeat_each(node: Node, view: View) -> Iterator[Fact]:
    """Each index of `axis` stands `times` times in a row in the output."""
    (x,), (y,) = node.inputs, node.outputs
    axis, times = node.attrs["axis"], node.attrs["times"]
    yield from identity(x, y, len(view.shape(x)), skip=(axis,))
    source = np.repeat(np.arange(view.shape(x)[axis]), times)
    yield Couple(Dim(x, axis), Dim(y, axis), source, np.arange(len(source)))


@rule("write")
def write(node: Node, view: View) -> Iterator[Fact]:
    """y = x, but y[start : stop] = the second input, along `axis`."""
    x, part = node.inputs
    (y,) = node.outputs
    axis, start, stop = (node.attrs[key] for key in ("axis", "start", "stop"))
    dim, length = Dim(x, axis), view.shape(x)[axis]
    yield from identity(x, y, len(view.shape(x)))
    yield from identity(part, y, len(view.shape(part)), skip=(axis,))
    yield Couple(Dim(part, axis), Dim(y, axis), None, np.arange(start, stop))
    if (start, stop) != (0, length):
        yield from _bounds(node, dim, length)
        width = stop - start
        if view.flexible(dim) and width > 1 and length % width == 0 and start % width == 0:
            yield Balance(dim, length // width, firm=False)


@rule("windows")
def windows(node: Node, view: View) -> Iterator[Fact]:
    """Sliding windows along `axis`, each laid out on a new last axis."""
    (x,), (y,) = node.inputs, node.outputs
    axis = node.attrs["axis"]
    yield from identity(x, y, len(view.shape(x)), skip=(axis,))
    if view.flexible(Dim(x, axis)):
        yield Freeze(Dim(x, axis), because=f"{node} slides windows along it")


@rule("gather")
def gather(node: Node, view: View) -> Iterator[Fact]:
    """Looks elements of `axes` up by numbers that arrive as data; only other axes are free.

    `places[k]` is where axis k of the input lands in the output, or -1.
    """
    x = node.inputs[0]
    (y,) = node.outputs
    reason = node.attrs.get("because", "looks entries up by number")
    for axis, place in enumerate(node.attrs["places"]):
        if place >= 0:
            yield Couple(Dim(x, axis), Dim(y, place))
        elif view.flexible(Dim(x, axis)):
            yield Freeze(Dim(x, axis), because=f"{node} {reason}")
    for tensor in node.inputs[1:]:
        for axis in range(len(view.shape(tensor))):
            if view.flexible(Dim(tensor, axis)):
                yield Freeze(Dim(tensor, axis), because=f"{node} uses it as numbers of entries")
