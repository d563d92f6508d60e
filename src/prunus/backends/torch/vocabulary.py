"""Which neutral op each ATen operator is: one entry an operator, different spellings meet here."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import fx

from prunus.backends.torch.lower import Lowering, operator_of

__all__ = ["SPLITS", "VOCABULARY"]

Entry = Callable[[Lowering, fx.Node], None]
VOCABULARY: dict[str, Entry] = {}


def entry(*names: str) -> Callable[[Entry], Entry]:
    """Put the decorated function into the vocabulary under each of the ATen names."""

    def register(function: Entry) -> Entry:
        for name in names:
            VOCABULARY[name] = function
        return function

    return register


def arguments(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of `node` by name, with the operator's defaults filled in."""
    schema = node.target._schema  # type: ignore[union-attr]
    found = {}
    for k, argument in enumerate(schema.arguments):
        if k < len(node.args):
            found[argument.name] = node.args[k]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def roles(low: Lowering, **given: Any) -> dict[str, str]:
    """Return the roles that hold a tensor; an absent bias has no entry."""
    return {role: low.tensor(value) for role, value in given.items() if isinstance(value, fx.Node)}


_ELEMENTWISE = """
    abs acos acosh add addcdiv addcmul alias alpha_dropout angle asin asinh atan atan2 atanh
    bernoulli bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min
    clip clone complex conj conj_physical contiguous copysign cos cosh detach detach_ div dropout
    elu empty_like eq erf erfc erfinv exp exp2 expm1 exponential fake_quantize_per_tensor_affine
    feature_alpha_dropout feature_dropout float_power floor floor_divide fmod frac full_like
    fused_moving_avg_obs_fake_quant ge gelu gt hardshrink hardsigmoid hardswish hardtanh heaviside
    hypot imag isfinite isinf isnan ldexp le leaky_relu lerp lift_fresh lift_fresh_copy log log10
    log1p log2 log_sigmoid logaddexp logical_and logical_not logical_or logical_xor logit lt
    masked_fill maximum minimum mish mul multiply nan_to_num native_dropout ne neg negative normal
    normal_functional ones_like polar positive pow rand_like randn_like real reciprocal relu relu6
    remainder resolve_conj resolve_neg round rrelu rsqrt rsub selu sgn sigmoid sign silu sin sinh
    softplus softshrink special_expit sqrt square sub subtract tan tanh threshold true_divide
    trunc uniform where zero zeros_like _conj _conj_physical
"""


@entry(*_ELEMENTWISE.split())
def _elementwise(low: Lowering, node: fx.Node) -> None:
    inputs = low.tensors_of((node.args, node.kwargs))
    value = node.meta["val"]
    made = [low.output(node)] if isinstance(value, torch.Tensor) else low.outputs(node)[:1]
    low.emit("elementwise", inputs, made)


@entry("to", "_to_copy", "type_as")
def _cast(low: Lowering, node: fx.Node) -> None:
    """A second tensor gives its type and device, whatever its shape."""
    low.emit("elementwise", [low.tensor(node.args[0])], [low.output(node)])


@entry("copy")
def _copy(low: Lowering, node: fx.Node) -> None:
    """`x.copy_(y)`: the values of y in the shape of x."""
    args = arguments(node)
    low.emit("expand", [low.tensor(args["src"]), low.tensor(args["self"])], [low.output(node)])


@entry("fill")
def _fill(low: Lowering, node: fx.Node) -> None:
    low.emit("elementwise", low.tensors_of(node.args[:1]), [low.output(node)])


@entry("prelu")
def _prelu(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    low.emit(
        "prelu", [low.tensor(args["self"])], [low.output(node)], roles(low, weight=args["weight"])
    )


@entry("_prelu_kernel")
def _prelu_kernel(low: Lowering, node: fx.Node) -> None:
    low.emit("elementwise", low.tensors_of(node.args), [low.output(node)])


_MADE = "zeros ones full empty rand randn new_zeros new_ones new_full new_empty randint"


@entry(*_MADE.split())
def _made(low: Lowering, node: fx.Node) -> None:
    name = low.output(node)
    low.emit("fill", [], [name], shape=list(low.shape(name)))


@entry("arange", "linspace", "eye", "scalar_tensor", "meshgrid", "tril_indices", "triu_indices")
def _constant(low: Lowering, node: fx.Node) -> None:
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)
    low.emit("constant", low.tensors_of(node.args), made)


# Convolution and products.


@entry("conv1d", "conv2d", "conv3d")
def _conv(low: Lowering, node: fx.Node) -> None:
    _convolution(low, node, transposed=False)


@entry("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(low: Lowering, node: fx.Node) -> None:
    _convolution(low, node, transposed=True)


@entry("convolution")
def _any_convolution(low: Lowering, node: fx.Node) -> None:
    _convolution(low, node, transposed=bool(arguments(node)["transposed"]))


def _convolution(low: Lowering, node: fx.Node, *, transposed: bool) -> None:
    args = arguments(node)
    x, weight = low.tensor(args["input"]), low.tensor(args["weight"])
    y = low.output(node)
    unbatched = len(low.shape(x)) < len(low.shape(weight))
    if unbatched:
        x, batched_y = _reshaped(low, x, (1, *low.shape(x))), low.between((1, *low.shape(y)))
    params = roles(low, weight=args["weight"], bias=args["bias"])
    op = "conv_transpose" if transposed else "conv"
    groups = low.number(args["groups"])
    low.emit(op, [x], [batched_y if unbatched else y], params, groups=groups)
    if unbatched:
        low.emit("reshape", [batched_y], [y], shape=list(low.shape(y)))


@entry("linear")
def _linear(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    params = roles(low, weight=args["weight"], bias=args["bias"])
    if len(low.shape(params["weight"])) == 1:
        x = low.tensor(args["input"])
        letters = "abcdefgh"[: len(low.shape(x))]
        equation = f"{letters},{letters[-1]}->{letters[:-1]}"
        low.emit("einsum", [x, params["weight"]], [low.output(node)], equation=equation)
        return
    low.emit("linear", [low.tensor(args["input"])], [low.output(node)], params)


@entry("matmul", "mm", "bmm", "mv", "dot", "vdot")
def _matmul(low: Lowering, node: fx.Node) -> None:
    a, b = low.tensors_of(node.args)
    _product(low, a, b, low.output(node))


def _product(low: Lowering, a: str, b: str, y: str) -> None:
    """a @ b as an einsum: leading axes are aligned at the right, as matmul does it."""
    rank_a, rank_b = len(low.shape(a)), len(low.shape(b))
    batch = "abcdefghijkl"[: max(rank_a, rank_b, 2) - 2]
    left = (batch[len(batch) - (rank_a - 2) :] + "yz") if rank_a > 1 else "z"
    right = (batch[len(batch) - (rank_b - 2) :] + "zx") if rank_b > 1 else "z"
    target = batch + ("y" if rank_a > 1 else "") + ("x" if rank_b > 1 else "")
    low.emit("einsum", [a, b], [y], equation=f"{left},{right}->{target}")


@entry("addmm", "baddbmm", "addbmm")
def _addmm(low: Lowering, node: fx.Node) -> None:
    bias, a, b = low.tensors_of(node.args)
    y = low.output(node)
    product = low.between(low.shape(y))
    _product(low, a, b, product)
    low.emit("elementwise", [product, bias], [y])


@entry("einsum")
def _einsum(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    names = low.tensors_of(args["tensors"])
    equation = _explicit(args["equation"].replace(" ", ""), [len(low.shape(n)) for n in names])
    low.emit("einsum", names, [low.output(node)], equation=equation)


def _explicit(equation: str, ranks: list[int]) -> str:
    """Write out "..." and an output that is only implied."""
    terms, arrow, target = equation.partition("->")
    parts = terms.split(",")
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    widest = max(
        (rank - len(part.replace("...", ""))) for part, rank in zip(parts, ranks, strict=True)
    )
    dots = "".join(spare[:widest]) if "..." in equation else ""
    if not arrow:
        letters = terms.replace("...", "").replace(",", "")
        target = "..." * bool(dots) + "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1)
        )
    done = []
    for part, rank in zip(parts, ranks, strict=True):
        width = rank - len(part.replace("...", ""))
        done.append(part.replace("...", dots[len(dots) - width :] if width else ""))
    return f"{','.join(done)}->{target.replace('...', dots)}"


@entry("outer", "ger")
def _outer(low: Lowering, node: fx.Node) -> None:
    low.emit("einsum", low.tensors_of(node.args), [low.output(node)], equation="a,b->ab")


@entry("tensordot")
def _tensordot(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    a, b = low.tensor(args["self"]), low.tensor(args["other"])
    rank = len(low.shape(a))
    letters = "abcdefghijklmnopqrstuvwxyz"[: rank + len(low.shape(b))]
    left, right = letters[:rank], list(letters[rank:])
    summed = [left[axis] for axis in low.number(args["dims_self"])]
    for letter, axis in zip(summed, low.number(args["dims_other"]), strict=True):
        right[axis] = letter
    target = "".join(letter for letter in (*left, *right) if letter not in summed)
    equation = f"{left},{''.join(right)}->{target}"
    low.emit("einsum", [a, b], [low.output(node)], equation=equation)


@entry("bilinear")
def _bilinear(low: Lowering, node: fx.Node) -> None:
    """y[.., o] = sum_ij a[.., i] * w[o, i, j] * b[.., j] + bias[o]"""
    args = arguments(node)
    a, b, weight = (low.tensor(args[key]) for key in ("input1", "input2", "weight"))
    y = low.output(node)
    lead = "abcdefgh"[: len(low.shape(a)) - 1]
    equation = f"{lead}x,zxy,{lead}y->{lead}z"
    if args["bias"] is None:
        low.emit("einsum", [a, weight, b], [y], equation=equation)
        return
    product = low.between(low.shape(y))
    low.emit("einsum", [a, weight, b], [product], equation=equation)
    low.emit("elementwise", [product, low.tensor(args["bias"])], [y])


@entry("embedding")
def _embedding(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    low.emit(
        "embedding",
        [low.tensor(args["indices"])],
        [low.output(node)],
        roles(low, weight=args["weight"]),
    )


@entry("scaled_dot_product_attention")
def _attention(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    inputs = low.tensors_of([args[key] for key in ("query", "key", "value", "attn_mask")])
    y = low.output(node)
    causal = bool(args["is_causal"])
    low.emit("attention", inputs, [y], scaled_by_length=args["scale"] is None, causal=causal)


# Normalisation.


_BATCH_NORMS = "batch_norm native_batch_norm _native_batch_norm_legit cudnn_batch_norm"


@entry(*_BATCH_NORMS.split(), "_native_batch_norm_legit_no_training")
def _batch_norm(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    params = roles(
        low,
        weight=args["weight"],
        bias=args["bias"],
        mean=args.get("running_mean"),
        var=args.get("running_var"),
    )
    training = bool(args.get("training")) or "mean" not in params
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)[:1]
    x = low.tensor(args["input"])
    low.emit("batch_norm", [x], made, params, from_input=training, channels=low.shape(x)[1])


@entry("instance_norm")
def _instance_norm(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    params = roles(
        low,
        weight=args["weight"],
        bias=args["bias"],
        mean=args["running_mean"],
        var=args["running_var"],
    )
    x = low.tensor(args["input"])
    low.emit(
        "instance_norm",
        [x],
        [low.output(node)],
        params,
        from_input=bool(args["use_input_stats"]),
        channels=low.shape(x)[1],
    )


@entry("layer_norm", "rms_norm", "native_layer_norm", "_fused_rms_norm")
def _layer_norm(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    shape = low.number(args["normalized_shape"])
    params = roles(low, weight=args["weight"], bias=args.get("bias"))
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)[:1]
    low.emit(
        "layer_norm",
        [low.tensor(args["input"])],
        made,
        params,
        axes=len(shape),
        normalized_shape=list(shape),
    )


@entry("group_norm")
def _group_norm(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    params = roles(low, weight=args["weight"], bias=args["bias"])
    groups = low.number(args["num_groups"])
    low.emit("group_norm", [low.tensor(args["input"])], [low.output(node)], params, groups=groups)


@entry("_weight_norm", "_weight_norm_interface")
def _weight_norm(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    params = roles(low, direction=args["v"], length=args["g"])
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)[:1]
    low.emit("weight_norm", [], made, params, axis=low.number(args["dim"]))


@entry("softmax", "log_softmax", "_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp")
def _along(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    axis = low.number(args["dim"]) % max(1, len(low.shape(x)))
    low.emit("along", [x], [low.output(node)], axes=[axis])


# Gathering over axes.

_REDUCE = """mean sum amax amin prod var std var_mean std_mean max min argmax argmin logsumexp norm
    linalg_vector_norm median any all nansum aminmax"""


@entry(*_REDUCE.split())
def _reduce(low: Lowering, node: fx.Node) -> None:
    args, name = arguments(node), str(node.target)
    x = low.tensor(args["self"])
    if isinstance(args.get("other"), fx.Node):  # max(a, b): an element-wise maximum
        _elementwise(low, node)
        return
    rank = len(low.shape(x))
    axes = low.number(args.get("dim"))
    axes = list(range(rank)) if axes is None or axes == [] else axes
    axes = [axis % max(1, rank) for axis in (axes if isinstance(axes, list) else [axes])]
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)
    # max(dim=..) returns values and their places; the places matter only where they are read.
    places = not single and "mean" not in name and "minmax" not in name
    by_number = "arg" in name or (
        places and any(user.args[1] == 1 and user.users for user in node.users)
    )
    low.emit("reduce", [x], made, axes=axes, keepdim=bool(args.get("keepdim")), by_number=by_number)


@entry("cosine_similarity", "pairwise_distance")
def _similarity(low: Lowering, node: fx.Node) -> None:
    """Two tensors, compared element by element, and added up over one axis."""
    args = arguments(node)
    y = low.output(node)
    a, b = low.tensors_of([args["x1"], args["x2"]])
    shape = torch.broadcast_shapes(low.shape(a), low.shape(b))
    both = low.between(shape)
    axes = [low.number(args.get("dim", -1)) % len(shape)]
    low.emit("elementwise", [a, b], [both])
    low.emit("reduce", [both], [y], axes=axes, keepdim=bool(args.get("keepdim")))


@entry("topk", "sort", "argsort", "kthvalue", "mode")
def _sorting(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    axis = low.number(args["dim"]) % len(low.shape(x))
    places = [-1 if k == axis else k for k in range(len(low.shape(x)))]
    single = isinstance(node.meta["val"], torch.Tensor)
    for made in [low.output(node)] if single else low.outputs(node):
        low.emit("gather", [x], [made], places=places)


_SPATIAL = {
    "upsample": "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d",
    "_upsample": "nearest_exact1d nearest_exact2d nearest_exact3d bicubic2d_aa bilinear2d_aa",
    "max": "pool1d pool2d pool3d",
    "avg": "pool1d pool2d pool3d",
    "adaptive_avg": "pool1d pool2d pool3d",
    "adaptive_max": "pool1d pool2d pool3d",
    "_adaptive_avg": "pool2d pool3d",
}
_POOLS = [f"{first}_{rest}" for first, many in _SPATIAL.items() for rest in many.split()]


@entry(*_POOLS, "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _pool(low: Lowering, node: fx.Node) -> None:
    x = low.tensor(node.args[0])
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)
    axes = next(int(k) for k in str(node.target) if k in "123")
    low.emit("spatial", [x], made, axes=axes)


@entry("tril", "triu")
def _triangle(low: Lowering, node: fx.Node) -> None:
    low.emit("spatial", [low.tensor(node.args[0])], [low.output(node)], axes=2)


@entry("max_unpool2d", "max_unpool3d")
def _unpool(low: Lowering, node: fx.Node) -> None:
    axes = 2 if "2d" in str(node.target) else 3
    low.emit("spatial", low.tensors_of(node.args[:2]), [low.output(node)], axes=axes)


@entry("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid(low: Lowering, node: fx.Node) -> None:
    x, grid = low.tensors_of(node.args[:2])
    places = [0, 1, *[-1] * (len(low.shape(x)) - 2)]
    low.emit("gather", [x, grid], [low.output(node)], places=places)


@entry("im2col", "col2im")
def _columns(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    op = "unfold" if "im2col" in str(node.target) else "fold"
    window = prod(low.number(args["kernel_size"]))
    low.emit(op, [low.tensor(args["self"])], [low.output(node)], window=window)


# Layout.


def _reshaped(low: Lowering, x: str, shape: tuple[int, ...], carrier: int = -1) -> str:
    y = low.between(shape)
    low.emit("reshape", [x], [y], shape=list(shape), carrier=carrier)
    return y


_RESHAPES = """view reshape flatten squeeze unsqueeze view_as reshape_as unflatten _unsafe_view
    _reshape_alias view_copy"""


@entry(*_RESHAPES.split())
def _reshape(low: Lowering, node: fx.Node) -> None:
    if node.target is torch.ops.aten.view.dtype:
        _elementwise(low, node)
        return
    y = low.output(node)
    # `view_as` has a second tensor, and takes its shape from it.
    low.emit("reshape", low.tensors_of(node.args), [y], shape=list(low.shape(y)))


@entry("permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT")
def _transpose(low: Lowering, node: fx.Node) -> None:
    x = low.tensor(node.args[0])
    # The operator itself, run on axis numbers as a tensor's strides, tells the order.
    rank = len(low.shape(x))
    probe = torch.empty([k + 2 for k in range(rank)], device="meta")
    rest = low.number(list(node.args[1:]))
    moved = node.target(probe, *rest, **low.number(dict(node.kwargs)) or {})  # type: ignore[operator]
    order = [length - 2 for length in moved.shape]
    low.emit("transpose", [x], [low.output(node)], order=order)


@entry("cat", "concat", "concatenate")
def _cat(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    y = low.output(node)
    rank = len(low.shape(y))
    names = [name for name in low.tensors_of(args["tensors"]) if len(low.shape(name)) == rank]
    low.emit("concat", names, [y], axis=low.number(args["dim"]) % rank)


@entry("stack")
def _stack(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    y = low.output(node)
    axis = low.number(args["dim"]) % len(low.shape(y))
    names = []
    for name in low.tensors_of(args["tensors"]):
        shape = list(low.shape(name))
        names.append(_reshaped(low, name, (*shape[:axis], 1, *shape[axis:])))
    low.emit("concat", names, [y], axis=axis)


SPLITS = """split split_with_sizes chunk tensor_split hsplit vsplit dsplit unsafe_chunk unsafe_split
    unsafe_split_with_sizes""".split()


@entry(*SPLITS)
def _split(low: Lowering, node: fx.Node) -> None:
    x = low.tensor(node.args[0])
    rank = len(low.shape(x))
    fixed = {"vsplit": 0, "hsplit": min(1, rank - 1), "dsplit": 2}.get(operator_of(node), 0)
    axis = low.number(arguments(node).get("dim", fixed)) % rank
    made = low.outputs(node)
    sizes = [low.shape(name)[axis] for name in made]
    low.emit("split", [x], made, axis=axis, sizes=sizes)


@entry("unbind")
def _unbind(low: Lowering, node: fx.Node) -> None:
    x = low.tensor(node.args[0])
    axis = low.number(arguments(node)["dim"]) % len(low.shape(x))
    made = low.outputs(node)
    for k, y in enumerate(made):
        low.emit("select", [x], [y], axis=axis, index=k)


@entry("select", "select_copy")
def _select(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    axis = low.number(args["dim"]) % len(low.shape(x))
    index = low.number(args["index"])
    low.emit("select", [x], [low.output(node)], axis=axis, index=index)


def _bounds(args: dict[str, Any], length: int, low: Lowering) -> dict[str, Any]:
    given = {"start": low.number(args["start"]), "stop": low.number(args["end"])}
    start, stop, _ = slice(given["start"], given["stop"]).indices(length)
    from_end = [key for key, number in given.items() if isinstance(number, int) and number < 0]
    return {"start": start, "stop": stop, "from_end": from_end}


@entry("slice", "slice_copy", "narrow")
def _slice(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    axis = low.number(args["dim"] or 0) % len(low.shape(x))
    if "length" in args:  # narrow(start, length)
        start = low.number(args["start"]) % low.shape(x)[axis]
        args |= {"start": start, "end": start + low.number(args["length"]), "step": 1}
    step = low.number(args["step"]) or 1
    bounds = _bounds(args, low.shape(x)[axis], low)
    low.emit("slice", [x], [low.output(node)], axis=axis, step=step, **bounds)


@entry("slice_scatter")
def _slice_scatter(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, part = low.tensor(args["self"]), low.tensor(args["src"])
    axis = low.number(args["dim"] or 0) % len(low.shape(x))
    step = low.number(args["step"]) or 1
    if step == 1:
        bounds = _bounds(args, low.shape(x)[axis], low)
        low.emit("write", [x, part], [low.output(node)], axis=axis, **bounds)
    else:
        because = f"writes every {step}th entry"
        low.emit("frozen", [x, part], [low.output(node)], because=because)


@entry("select_scatter")
def _select_scatter(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, part = low.tensor(args["self"]), low.tensor(args["src"])
    axis = low.number(args["dim"]) % len(low.shape(x))
    index = low.number(args["index"]) % low.shape(x)[axis]
    shape = list(low.shape(part))
    part = _reshaped(low, part, (*shape[:axis], 1, *shape[axis:]))
    low.emit("write", [x, part], [low.output(node)], axis=axis, start=index, stop=index + 1)


@entry("index", "_unsafe_index")
def _index(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, indices = low.tensor(args["self"]), args["indices"]
    y = low.output(node)
    rank = len(low.shape(x))
    used = [axis for axis, index in enumerate(indices) if index is not None]
    broadcast = len(torch.broadcast_shapes(*[low.shape(n) for n in low.tensors_of(indices)]))
    together = used == list(range(used[0], used[-1] + 1))
    first = used[0] if together else 0
    places, place = [], 0 if together else broadcast
    for axis in range(rank):
        if axis in used:
            places.append(-1)
            place += broadcast if together and axis == first else 0
        else:
            places.append(place)
            place += 1
    boolean = any(index.meta["val"].dtype is torch.bool for index in indices if index is not None)
    if boolean:
        low.emit("frozen", [x, *low.tensors_of(indices)], [y], because="picks entries by a mask")
        return
    low.emit("gather", [x, *low.tensors_of(indices)], [y], places=places)


@entry("index_select", "gather", "take_along_dim")
def _index_select(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, index = low.tensor(args["self"]), low.tensors_of([args.get("index", args.get("indices"))])
    rank = len(low.shape(x))
    axis = low.number(args["dim"]) % rank
    whole = "index_select" in str(node.target)
    places = [k if k != axis and whole else -1 for k in range(rank)]
    low.emit("gather", [x, *index], [low.output(node)], places=places)


@entry("expand", "broadcast_to")
def _expand(low: Lowering, node: fx.Node) -> None:
    y = low.output(node)
    low.emit("expand", [low.tensor(node.args[0])], [y], shape=list(low.shape(y)))


@entry("expand_as")
def _expand_as(low: Lowering, node: fx.Node) -> None:
    y = low.output(node)
    low.emit("expand", low.tensors_of(node.args), [y], shape=list(low.shape(y)))


_PADS = [f"{mode}_pad{k}d" for mode in ("reflection", "replication") for k in (1, 2, 3)]


@entry("pad", "constant_pad_nd", *_PADS)
def _pad(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, y = low.tensor(args.get("self", args.get("input"))), low.output(node)
    widths = low.number(args.get("pad", args.get("padding")))
    amounts = [(0, 0)] * len(low.shape(x))
    for k in range(0, len(widths), 2):
        amounts[-1 - k // 2] = (widths[k], widths[k + 1])
    constant = "constant" in str(node.target) or args.get("mode") == "constant"
    if any(number < 0 for pair in amounts for number in pair):
        changed = [axis for axis, pair in enumerate(amounts) if any(pair)]
        low.emit("spatial", [x], [y], axes=len(low.shape(x)) - min(changed))
        return
    low.emit("pad", [x], [y], amounts=amounts, constant=constant)


@entry("repeat", "tile")
def _repeat(low: Lowering, node: fx.Node) -> None:
    x, y = low.tensor(node.args[0]), low.output(node)
    times = low.number(node.args[1])
    times = [1] * (len(low.shape(x)) - len(times)) + times
    low.emit("repeat", [x], [y], times=times)


@entry("repeat_interleave")
def _repeat_interleave(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    if not isinstance(args.get("repeats"), int) or args.get("dim") is None:
        low.emit("frozen", low.tensors_of(node.args), [low.output(node)], because="repeats entries")
        return
    x = low.tensor(args["self"])
    axis = args["dim"] % len(low.shape(x))
    low.emit("repeat_each", [x], [low.output(node)], axis=axis, times=args["repeats"])


@entry("flip", "fliplr", "flipud")
def _flip(low: Lowering, node: fx.Node) -> None:
    x, y = low.tensor(node.args[0]), low.output(node)
    dims = low.number(arguments(node).get("dims"))
    dims = dims if dims is not None else [1 if "fliplr" in str(node.target) else 0]
    for k, axis in enumerate(dims):
        after = y if k == len(dims) - 1 else low.between(low.shape(x))
        order = list(range(low.shape(x)[axis]))[::-1]
        low.emit("take", [x], [after], axis=axis % len(low.shape(x)), order=order)
        x = after


@entry("rot90")
def _rot90(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    rank = len(low.shape(x))
    turned = {axis % rank for axis in low.number(args["dims"])}
    places = [-1 if axis in turned else axis for axis in range(rank)]
    low.emit("gather", [x], [low.output(node)], places=places, because="works along it")


@entry("view_as_real", "view_as_complex")
def _complex_view(low: Lowering, node: fx.Node) -> None:
    """Both parts of a complex number on an axis of their own, the last, and back."""
    x, y = low.tensor(node.args[0]), low.output(node)
    shared = min(len(low.shape(x)), len(low.shape(y)))
    places = [axis if axis < shared else -1 for axis in range(len(low.shape(x)))]
    low.emit("gather", [x], [y], places=places, because="works along it")


_KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_FOURIER = [f"fft_{kind}{axes}" for kind in _KINDS for axes in ("", "2", "n")]


@entry(*_FOURIER, "fft_fftshift", "fft_ifftshift")
def _fourier(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    rank = len(low.shape(x))
    dims = low.number(args["dim"])
    dims = range(rank) if dims is None else dims if isinstance(dims, list) else [dims]
    worked = {axis % rank for axis in dims}
    places = [-1 if axis in worked else axis for axis in range(rank)]
    low.emit("gather", [x], [low.output(node)], places=places, because="works along it")


@entry("roll")
def _roll(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, y = low.tensor(args["self"]), low.output(node)
    shifts, dims = low.number(args["shifts"]), low.number(args["dims"])
    if not dims:
        low.emit("frozen", [x], [y], because="rolls over all axes at once")
        return
    for k, (shift, axis) in enumerate(zip(shifts, dims, strict=True)):
        after = y if k == len(dims) - 1 else low.between(low.shape(x))
        low.emit("roll", [x], [after], axis=axis % len(low.shape(x)), shift=shift)
        x = after


@entry("unfold")
def _unfold(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x = low.tensor(args["self"])
    axis = low.number(args["dimension"]) % len(low.shape(x))
    low.emit("windows", [x], [low.output(node)], axis=axis)


@entry("glu")
def _glu(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    x, y = low.tensor(args["self"]), low.output(node)
    axis = args["dim"] % len(low.shape(x))
    half = low.shape(y)[axis]
    halves = [low.between(low.shape(y))]
    halves.append(halves[0] + "b")
    low._declare(halves[1], low.shape(y))
    low.emit("split", [x], halves, axis=axis, sizes=[half, half])
    low.emit("elementwise", halves, [y])


@entry("pixel_shuffle")
def _pixel_shuffle(low: Lowering, node: fx.Node) -> None:
    x, y = low.tensor(node.args[0]), low.output(node)
    factor = low.number(arguments(node)["upscale_factor"])
    *lead, channels, high, wide = low.shape(x)
    channels //= factor * factor
    k = len(lead)
    split = _reshaped(low, x, (*lead, channels, factor, factor, high, wide), carrier=k)
    order = [*range(k), k, k + 3, k + 1, k + 4, k + 2]
    moved = low.between([low.shape(split)[axis] for axis in order])
    low.emit("transpose", [split], [moved], order=order)
    low.emit("reshape", [moved], [y], shape=list(low.shape(y)))


@entry("pixel_unshuffle")
def _pixel_unshuffle(low: Lowering, node: fx.Node) -> None:
    x, y = low.tensor(node.args[0]), low.output(node)
    factor = low.number(arguments(node)["downscale_factor"])
    *lead, channels, high, wide = low.shape(x)
    split = _reshaped(low, x, (*lead, channels, high // factor, factor, wide // factor, factor))
    k = len(lead)
    order = [*range(k), k, k + 2, k + 4, k + 1, k + 3]
    moved = low.between([low.shape(split)[axis] for axis in order])
    low.emit("transpose", [split], [moved], order=order)
    low.emit("reshape", [moved], [y], shape=list(low.shape(y)))


@entry("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(low: Lowering, node: fx.Node) -> None:
    x, y = low.tensor(node.args[0]), low.output(node)
    groups = low.number(arguments(node)["groups"])
    batch, channels, *rest = low.shape(x)
    split = _reshaped(low, x, (batch, groups, channels // groups, *rest), carrier=2)
    order = [0, 2, 1, *range(3, len(rest) + 3)]
    moved = low.between([low.shape(split)[axis] for axis in order])
    low.emit("transpose", [split], [moved], order=order)
    low.emit("reshape", [moved], [y], shape=list(low.shape(y)))


# Recurrent layers.


@entry("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(low: Lowering, node: fx.Node) -> None:
    args = arguments(node)
    gates = {"lstm": 4, "gru": 3}.get(str(node.target).split(".")[1], 1)
    states = low.tensors_of(args["hx"])
    directions = [""] + ["_reverse"] * bool(args["bidirectional"])
    params: dict[str, str] = {}
    weights = iter(low.tensors_of(args["params"]))
    kinds = ("w_ih_", "w_hh_") + (("b_ih_", "b_hh_") if args["has_biases"] else ())
    for layer in range(args["num_layers"]):
        for direction in directions:
            for kind in kinds:
                params[f"{kind}l{layer}{direction}"] = next(weights)
    low.emit(
        "recurrent",
        [low.tensor(args["input"]), *states],
        low.outputs(node),
        params,
        gates=gates,
        layers=args["num_layers"],
        bidirectional=bool(args["bidirectional"]),
    )


@entry("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(low: Lowering, node: fx.Node) -> None:
    """One step: two linear layers into the gates, which work on the hidden units one by one."""
    args = arguments(node)
    x, *states = low.tensors_of([args["input"], args["hx"]])
    hidden = low.shape(states[0])[-1]
    gates = low.shape(low.tensor(args["w_ih"]))[0] // hidden
    single = isinstance(node.meta["val"], torch.Tensor)
    made = [low.output(node)] if single else low.outputs(node)
    units = list(states)
    for source, kind in ((x, "ih"), (states[0], "hh")):
        wide = low.between((*low.shape(source)[:-1], gates * hidden))
        params = roles(low, weight=args[f"w_{kind}"], bias=args[f"b_{kind}"])
        low.emit("linear", [source], [wide], params)
        parts = []
        for k in range(gates):
            parts.append(f"{wide}.{k}")
            low._declare(parts[-1], (*low.shape(source)[:-1], hidden))
        low.emit("split", [wide], parts, axis=len(low.shape(wide)) - 1, sizes=[hidden] * gates)
        units += parts
    for state in made:
        low.emit("elementwise", units, [state])
