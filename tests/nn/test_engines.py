"""The C++ kernels against plain torch in double precision."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from mipset.condensing.objectives import L1, Distance, GradientMatching, RowCosine, Squared
from mipset.nn import engines
from mipset.nn.engines import Engine, Native
from mipset.nn.native import Block, Kernels, functions
from mipset.nn.networks import ConvNet, ResNetAP

SIZES = st.tuples(*(st.integers(low, high) for low, high in ((1, 5), (1, 40), (1, 40), (1, 11), (1, 11))))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(result: Tensor, expected: Tensor, within: float = 2e-5) -> None:
    result, expected = result.detach().double(), expected.detach()
    assert result.shape == expected.shape
    assert float((result - expected).norm()) <= within * (float(expected.norm()) or 1.0)


LARGE = [(20, 128, 130, 16, 16), (5, 150, 70, 3, 18), (1, 16, 129, 1, 1)]  # more than one chunk


@pytest.mark.parametrize("sizes", [*LARGE, (0, 20, 30, 8, 8)])
def test_convolution_of_many_channels(kernels: Kernels, sizes: tuple[int, int, int, int, int]) -> None:
    check_convolution(kernels, sizes)


@given(SIZES)
def test_convolution_and_its_gradients(kernels: Kernels, sizes: tuple[int, int, int, int, int]) -> None:
    check_convolution(kernels, sizes)


def check_convolution(kernels: Kernels, sizes: tuple[int, int, int, int, int]) -> None:
    n, ci, co, h, w = sizes
    given_ = (randn(n, ci, h, w), randn(co, ci, 3, 3, seed=1), randn(co, seed=2))
    slopes = randn(n, co, h, w, seed=3)
    ours, theirs = ([x.to(kind).requires_grad_() for x in given_] for kind in (torch.float32, torch.float64))
    result = functions.convolve(kernels, ours[0], ours[1], ours[2])
    expected = F.conv2d(theirs[0], theirs[1], theirs[2], padding=1)
    close(result, expected)
    pairs = zip(
        torch.autograd.grad(result, ours, slopes), torch.autograd.grad(expected, theirs, slopes.double()), strict=True
    )
    for gradient, wanted in pairs:
        close(gradient, wanted)


@pytest.mark.parametrize("channels", [1, 3, 40])
def test_kernels_keep_channels_last_order(kernels: Kernels, channels: int) -> None:
    images = randn(2, channels, 8, 8).requires_grad_()
    weight = randn(5, channels, 3, 3, seed=1).requires_grad_()
    result = functions.convolve(kernels, images, weight, None)
    gradient = functions.weight_gradients(kernels, images, result, [1, 2])
    (slopes,) = torch.autograd.grad(gradient, result, torch.ones_like(gradient))
    for x in (result, slopes):
        assert x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("sizes", LARGE)
def test_weight_gradients_of_many_channels(kernels: Kernels, sizes: tuple[int, int, int, int, int]) -> None:
    check_weight_gradients(kernels, sizes, sizes[0] // 3)


@given(SIZES, st.integers(0, 4))
def test_weight_gradients_and_their_gradients(
    kernels: Kernels, sizes: tuple[int, int, int, int, int], cut: int
) -> None:
    check_weight_gradients(kernels, sizes, cut)


def check_weight_gradients(kernels: Kernels, sizes: tuple[int, int, int, int, int], cut: int) -> None:
    n, ci, co, h, w = sizes
    ends = [cut, n] if 0 < cut < n else [n]
    layer = nn.Conv2d(ci, co, 3, padding=1)
    ours, theirs = (
        [x.to(kind).requires_grad_() for x in (randn(n, ci, h, w), randn(n, co, h, w, seed=1))]
        for kind in (torch.float32, torch.float64)
    )
    result = functions.weight_gradients(kernels, ours[0], ours[1], ends)
    expected = Engine().weight_gradients(theirs[0], theirs[1], layer, ends)
    close(result, expected)
    above = randn(*result.shape, seed=2)
    pairs = zip(
        torch.autograd.grad(result, ours, above), torch.autograd.grad(expected, theirs, above.double()), strict=True
    )
    for gradient, wanted in pairs:
        close(gradient, wanted)


def separated(n: int, c: int, h: int, w: int, beta: Tensor) -> Tensor:
    """Values whose normalised sum with beta keeps clear of 0, where the gate of ReLU would depend on rounding."""
    x = randn(n, c, h, w)
    for _ in range(20):
        z = (x - x.mean((2, 3), keepdim=True)) / x.std((2, 3), keepdim=True, unbiased=False).clamp_min(1e-3)
        near = (z + beta[:, None, None]).abs() < 0.02
        x = torch.where(near, x + 0.1, x)
    return x


BLOCKS = [Block(), Block(pool=4), Block(pool=1), Block(pool=1, relu=False)]


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(2, 9), st.integers(2, 9)),
    st.sampled_from([kind for kind in BLOCKS if kind.pool <= 2]),
)
def test_norm_relu_pool_and_its_derivatives(kernels: Kernels, sizes: tuple[int, int, int, int], kind: Block) -> None:
    check_norm_relu_pool(kernels, sizes, kind)


@pytest.mark.parametrize("kind", BLOCKS, ids=repr)
@pytest.mark.parametrize("sizes", [(2, 150, 7, 6), (1, 260, 4, 4), (1, 20, 11, 12)])
def test_norm_relu_pool_of_many_channels(kernels: Kernels, sizes: tuple[int, int, int, int], kind: Block) -> None:
    check_norm_relu_pool(kernels, sizes, kind)


def check_norm_relu_pool(kernels: Kernels, sizes: tuple[int, int, int, int], kind: Block) -> None:
    n, c, h, w = sizes
    beta = 0.3 * randn(c, seed=2)
    given_ = (separated(n, c, h, w, beta), torch.ones(c), beta)
    dy, u = randn(n, c, h // kind.pool, w // kind.pool, seed=3), randn(n, c, h, w, seed=4)

    def derivatives(function: Callable[..., Tensor], kind: torch.dtype) -> list[Tensor]:
        x, gamma, shift = (value.to(kind).requires_grad_() for value in given_)
        slope = dy.to(kind).requires_grad_()
        out = function(x, gamma, shift)
        first = torch.autograd.grad(out, [x, gamma, shift], slope)
        out = function(x, gamma.detach(), shift.detach())
        (dx,) = torch.autograd.grad(out, x, slope, create_graph=True)
        return [out, *first, *torch.autograd.grad(dx, [slope, x], u.to(kind))]

    def plain(x: Tensor, gamma: Tensor, shift: Tensor) -> Tensor:
        normed = F.group_norm(x, c, gamma, shift, 1e-5)
        return F.avg_pool2d(F.relu(normed) if kind.relu else normed, kind.pool)

    result = derivatives(
        lambda x, gamma, shift: functions.norm_relu_pool(kernels, x, gamma, shift, 1e-5, kind), torch.float32
    )
    for ours, theirs in zip(result, derivatives(plain, torch.float64), strict=True):
        close(ours, theirs, within=2e-3)  # few pixels make a small variance, which magnifies rounding


@pytest.mark.parametrize("kind", BLOCKS, ids=repr)
@pytest.mark.parametrize("sizes", [(2, 40, 7, 6), (3, 16, 4, 4)])
def test_norm_relu_pool_of_bfloat16_images(kernels: Kernels, sizes: tuple[int, int, int, int], kind: Block) -> None:
    """It rounds what it stores to the nearest bfloat16, which has 8 significant bits, and computes in float32."""
    n, c, h, w = sizes
    beta = 0.3 * randn(c, seed=2)
    images = separated(n, c, h, w, beta).bfloat16()
    dy, u = randn(n, c, h // kind.pool, w // kind.pool, seed=3).bfloat16(), randn(n, c, h, w, seed=4)

    def derivatives(dtype: torch.dtype) -> list[Tensor]:
        x, slope = (value.to(dtype).requires_grad_() for value in (images, dy))
        gamma, shift = torch.ones(c, requires_grad=True), beta.clone().requires_grad_()
        out = functions.norm_relu_pool(kernels, x, gamma, shift, 1e-5, kind)
        first = torch.autograd.grad(out, [x, gamma, shift], slope)
        out = functions.norm_relu_pool(kernels, x, gamma.detach(), shift.detach(), 1e-5, kind)
        (dx,) = torch.autograd.grad(out, x, slope, create_graph=True)
        return [out, *first, *torch.autograd.grad(dx, [slope, x], u.to(dtype))]

    rounded = derivatives(torch.bfloat16)
    assert [value.dtype for value in rounded[:4]] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    for ours, exact in zip(rounded, derivatives(torch.float32), strict=True):
        ours, exact = ours.detach().float(), exact.detach()
        torch.testing.assert_close(ours, exact, rtol=2**-7, atol=2e-2 * float(exact.abs().max()))
    torch.testing.assert_close(rounded[0], derivatives(torch.float32)[0].bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", BLOCKS, ids=repr)
def test_norm_of_bfloat16_images_keeps_nan_and_overflow(kernels: Kernels, kind: Block) -> None:
    images = randn(3, 20, 4, 4).bfloat16()
    images[0, 0, 0, 0], images[1, 0, 0, 0] = torch.nan, 3e38
    out = functions.norm_relu_pool(kernels, images, torch.ones(20), torch.zeros(20), 1e-5, kind)
    assert out[:2, 0].isnan().all()
    assert not out[2].isnan().any()
    assert not out[:, 1:].isnan().any()


@pytest.mark.parametrize("unit", [False, True], ids=["vectors", "matrix unit"])
@pytest.mark.parametrize("channels", [1, 3, 32])
def test_network_under_autocast_is_near_the_exact_one(
    kernels: Kernels, channels: int, unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every processor, with the path of those that have a matrix unit for bfloat16 and with that of the others."""
    monkeypatch.setattr(engines, "matrix_unit", lambda: unit)
    images = randn(6, channels, 16, 16)

    def gradients(engine: Engine, half: bool) -> list[Tensor]:
        torch.manual_seed(0)
        theta = ConvNet(channels, 5, (16, 16), 32, 2, engine)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            scores = theta(images)
        loss = F.cross_entropy(scores.float(), torch.arange(6) % 5)
        weights = [p for name, p in theta.named_parameters() if name.endswith("weight")]
        return [scores.float(), *torch.autograd.grad(loss, weights)]

    for ours, exact in zip(gradients(Native(kernels), True), gradients(Engine(), False), strict=True):
        assert ours.dtype == torch.float32
        close(ours, exact, within=0.2)


@pytest.mark.parametrize("unit", [False, True], ids=["vectors", "matrix unit"])
def test_layers_pass_on_bfloat16_where_a_matrix_unit_reads_it(
    kernels: Kernels, unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "matrix_unit", lambda: unit)
    layer = nn.Conv2d(16, 20, 3, padding=1)
    with torch.autocast("cpu", torch.bfloat16):
        convolved = Native(kernels).convolve(randn(2, 16, 8, 8), layer)
    assert convolved.dtype == (torch.bfloat16 if unit else torch.float32)


def test_versions_of_torch_that_cannot_tell_have_no_matrix_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert engines.matrix_unit.__wrapped__() is False


def test_second_derivatives_of_gamma_are_refused(kernels: Kernels) -> None:
    x, gamma, beta = randn(2, 3, 4, 4).requires_grad_(), torch.ones(3, requires_grad=True), torch.zeros(3)
    out = functions.norm_relu_pool(kernels, x, gamma, beta, 1e-5)
    (dx,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="Second derivatives exist for x only"):
        torch.autograd.grad(dx.square().sum(), x)


@pytest.mark.parametrize(("side", "channels"), [(1, 3), (1, 20), (7, 3), (7, 20)])
def test_other_filters_keep_the_memory_order_and_have_exact_derivatives(
    kernels: Kernels, side: int, channels: int
) -> None:
    """Those of the stem and of the shortcuts of a ResNet: first and second derivatives against double precision."""
    given_ = (randn(5, channels, 9, 8), randn(18, channels, side, side, seed=1), randn(5, 18, 9, 8, seed=2))
    towards = (randn(5, 18, 9, 8, seed=3), randn(2, 18, channels, side, side, seed=4))

    def derivatives(kind: torch.dtype, ours: bool) -> list[Tensor]:
        layer = nn.Conv2d(channels, 18, side, padding=side // 2, bias=False).to(kind)
        x, weight, slopes = (value.to(kind).requires_grad_() for value in given_)
        layer.weight = nn.Parameter(weight.detach())
        engine = Native(kernels) if ours else Engine()
        out = engine.convolve(x, layer)
        assert not ours or out.is_contiguous(memory_format=torch.channels_last)
        first = torch.autograd.grad(out, [x, layer.weight], towards[0].to(kind))
        gradients = engine.weight_gradients(x, slopes, layer, [2, 5])
        return [out, *first, gradients, *torch.autograd.grad(gradients, [x, slopes], towards[1].to(kind))]

    for computed, exact in zip(derivatives(torch.float32, True), derivatives(torch.float64, False), strict=True):
        close(computed, exact)


def clear_of_kinks(theta: ConvNet, images: Tensor, margin: float = 2e-5) -> Tensor:
    """The images without an activation so near 0 that rounding decides whether ReLU lets it pass."""
    nearest = torch.full((len(images),), torch.inf, dtype=torch.float64)

    def measure(layer: nn.Module, inputs: object, output: Tensor) -> None:
        del layer, inputs
        normalised = F.instance_norm(output)  # as in the norm that follows: a new one has scale 1 and shift 0
        nearest.copy_(torch.minimum(nearest, normalised.abs().flatten(1).amin(dim=1).detach()))

    hooks = [module.register_forward_hook(measure) for module in theta.modules() if isinstance(module, nn.Conv2d)]
    theta(images.double())
    for hook in hooks:
        hook.remove()
    return images[nearest > margin]


@pytest.mark.parametrize("distance", [Squared(), L1(), RowCosine()], ids=repr)
@pytest.mark.parametrize(
    ("channels", "size", "ends"), [(3, (16, 16), [20]), (1, (28, 28), [4, 20]), (3, (12, 20), [4, 8, 12, 16, 20])]
)
def test_gradient_matching_is_the_same_with_both_engines(
    kernels: Kernels, distance: Distance, channels: int, size: tuple[int, int], ends: list[int]
) -> None:
    objective = GradientMatching(distance)

    def network(engine: Engine, kind: torch.dtype) -> ConvNet:
        torch.manual_seed(0)
        return ConvNet(channels, 5, size, 24, 2, engine).to(kind)

    exact_network = network(Engine(), torch.float64)
    real, synthetic = (clear_of_kinks(exact_network, randn(80, channels, *size, seed=seed))[:20] for seed in (0, 1))
    assert len(real) == len(synthetic) == 20

    def matched(engine: Engine, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        theta = network(engine, kind)
        pixels = synthetic.to(kind).requires_grad_()
        target = objective.target(theta, real.to(kind)[None], [3])
        match = objective.distances(theta, pixels[None], [3], target, ends)
        return match.distances.detach(), match.features, torch.autograd.grad(match.distances.sum(), pixels)[0]

    ours, theirs = (matched(engine, torch.float32) for engine in (Native(kernels), Engine()))
    for mine, plain, exact in zip(ours, theirs, matched(Engine(), torch.float64), strict=True):
        error_of_torch = float((plain - exact).norm() / exact.norm())
        close(mine, exact, 1e-5 + 5 * error_of_torch)


@pytest.mark.parametrize("size", [16, 64])
def test_gradient_matching_with_a_resnet_is_the_same_with_both_engines(kernels: Kernels, size: int) -> None:
    """At 64 pixels with its stem of 7 x 7 pixels. Without ReLU, no rounding can decide what passes.

    Only the last block has its ReLU: the mean of what a norm gives is the same for all images, so without it all
    gradients would be zero, and only rounding would be compared.
    """
    objective = GradientMatching()
    real, synthetic = (randn(3, 3, size, size, seed=seed) for seed in (0, 1))

    def matched(engine: Engine, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        theta = ResNetAP(3, 5, (size, size), 16, 10, engine).to(kind)
        for name, parameter in theta.named_parameters():
            last = name.startswith(("blocks.3.norm2", "blocks.3.shortcut.2"))
            if not last and ("norm" in name or name.startswith("stem.1") or "shortcut.2" in name):
                parameter.data.copy_(torch.full_like(parameter, 9.0 if name.endswith("bias") else 1.0))
        pixels = synthetic.to(kind).requires_grad_()
        target = objective.target(theta, real.to(kind)[None], [3])
        distances = objective.distances(theta, pixels[None], [3], target, [1, 3]).distances
        return distances.detach(), torch.autograd.grad(distances.sum(), pixels)[0]

    ours, plain = (matched(engine, torch.float32) for engine in (Native(kernels), Engine()))
    for mine, torchs, exact in zip(ours, plain, matched(Engine(), torch.float64), strict=True):
        error_of_torch = float((torchs - exact).norm() / exact.norm())
        assert error_of_torch < 1e-2
        close(mine, exact, 1e-5 + 5 * error_of_torch)


def test_training_is_the_same_with_both_engines(kernels: Kernels) -> None:
    result = []
    for engine in (Engine(), Native(kernels)):
        torch.manual_seed(0)
        theta = ConvNet(3, 5, (16, 16), 24, 2, engine)
        loss = F.cross_entropy(theta(randn(8, 3, 16, 16)), torch.arange(8) % 5)
        result.append(torch.autograd.grad(loss, [weight for weight in theta.parameters() if weight.dim() > 1]))
    for plain, ours in zip(*result, strict=True):
        close(ours, plain.double(), 1e-3)


def test_results_do_not_depend_on_the_number_of_threads(kernels: Kernels) -> None:
    x, weight, slopes = randn(9, 20, 13, 13), randn(33, 20, 3, 3, seed=1), randn(9, 33, 13, 13, seed=2)

    def results() -> list[Tensor]:
        gamma, beta = torch.ones(20), torch.zeros(20)
        out, mean, scale = kernels.block(x, gamma, beta, 1e-5)
        arguments = (out, x, gamma, beta, mean, scale)
        return [
            *kernels.block_backward(*arguments),
            *kernels.block_double_backward(x, *arguments),
            kernels.convolve(x, weight[None], None, [9]),
            kernels.weight_gradients(x, slopes, [4, 9]),
            out,
            mean,
            scale,
        ]

    alone = results()
    torch.set_num_threads(3)
    try:
        together = results()
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def strided_gradients(channels: int, size: int) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients of a strided 1 x 1 convolution in channels_last order: computed, and in double precision."""
    layer = nn.Conv2d(channels, 8, 1, stride=2, bias=False)
    images = randn(16, channels, size, size).contiguous(memory_format=torch.channels_last).requires_grad_()
    output = Engine().convolve(images, layer)
    slopes = randn(*output.shape, seed=1).contiguous(memory_format=torch.channels_last)
    gradients = torch.autograd.grad(output, [images, layer.weight], slopes)
    weights = Engine().weight_gradients(images, slopes, layer, [4, 16]).sum(dim=0)
    exact_images, exact_weight = (x.detach().double().requires_grad_() for x in (images, layer.weight))
    exact_output = F.conv2d(exact_images, exact_weight, stride=2)
    exact = torch.autograd.grad(exact_output, [exact_images, exact_weight], slopes.double())
    return [output, *gradients, weights], [exact_output, *exact, exact[1]]


@pytest.mark.parametrize("size", [8, 11])
@pytest.mark.parametrize("channels", [1, 7, 15, 16])
def test_strided_pointwise_convolutions_have_exact_gradients(channels: int, size: int) -> None:
    for computed, exact in zip(*strided_gradients(channels, size), strict=True):
        close(computed, exact)


@pytest.mark.parametrize("channels", [7, 15])
def test_onednn_never_gets_a_strided_pointwise_convolution_of_few_channels(
    channels: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its weight gradient would be written past the end of a buffer. These images are so small that it does no harm."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        pytest.skip("This torch has no oneDNN.")
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
        strided_gradients(channels, size=8)
    calls = [line for line in capfd.readouterr().out.splitlines() if ",convolution," in line]
    assert calls
    assert not [call for call in calls if "kh1sh2" in call]


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(20, 20, 5, padding=2),
        nn.Conv2d(20, 20, 3, stride=2, padding=1),
        nn.Conv2d(20, 20, 3, padding=2, dilation=2),
        nn.Conv2d(20, 20, 3, padding=1, groups=2),
        nn.Conv2d(20, 20, 3),
        nn.Conv2d(20, 20, 3, padding="same"),
        nn.Conv2d(20, 20, 3, padding=1).double(),
    ],
    ids=repr,
)
def test_layers_without_a_kernel_are_computed_by_torch(kernels: Kernels, layer: nn.Conv2d) -> None:
    x = randn(2, 20, 8, 8).to(layer.weight.dtype)
    assert torch.equal(Native(kernels).convolve(x, layer), layer(x))


@pytest.mark.parametrize(
    ("x", "layer"),
    [
        (randn(2, 20, 8, 8), nn.Conv2d(20, 20, 3, padding=1).double()),
        (randn(2, 20, 8, 8), nn.Conv2d(40, 20, 3, padding=1)),
        (randn(2, 40, 8, 8), nn.Conv2d(20, 20, 3, padding=1)),
    ],
    ids=["dtype", "too few", "too many"],
)
def test_images_that_do_not_fit_the_layer_are_refused(kernels: Kernels, x: Tensor, layer: nn.Conv2d) -> None:
    with pytest.raises(RuntimeError):
        Native(kernels).convolve(x, layer)


def test_norms_without_a_kernel_are_computed_by_torch(kernels: Kernels) -> None:
    bare = nn.GroupNorm(20, 20, affine=False)
    x = randn(2, 20, 8, 8)
    assert torch.equal(Native(kernels).norm_relu_pool(x, bare), Engine().norm_relu_pool(x, bare))
    with pytest.raises(RuntimeError, match="Output size is too small"):
        Native(kernels).norm_relu_pool(randn(2, 20, 1, 1), nn.GroupNorm(20, 20).eval())


def test_nan_stays_in_its_image(kernels: Kernels) -> None:
    theta = ConvNet(3, 5, (16, 16), 24, 2, Native(kernels))
    x = randn(2, 3, 16, 16)
    x[0, 0, 3, 3] = float("nan")
    scores = theta(x).detach()
    assert scores[0].isnan().all()
    assert scores[1].isfinite().all()


def test_variance_that_overflows_is_not_hidden(kernels: Kernels) -> None:
    """Its root is infinite, and every value divided by it would be zero."""
    x = randn(2, 16, 8, 8)
    x[0] *= 1e25
    for engine in (Native(kernels), Engine()):
        pooled = engine.norm_relu_pool(x, nn.GroupNorm(16, 16))
        assert pooled[0].isnan().all()
        assert pooled[1].isfinite().all()


def test_norm_is_exact_beside_an_outlier(kernels: Kernels) -> None:
    x = 1e-3 * randn(1, 16, 64, 64)
    x[:, :, 0, 0] = 3.0
    norm = nn.GroupNorm(16, 16)
    expected = Engine().norm_relu_pool(x.double(), nn.GroupNorm(16, 16).double()).detach()
    close(Native(kernels).norm_relu_pool(x, norm), expected, 1e-5)


def test_group_norm_of_several_channels_is_computed_by_torch(kernels: Kernels) -> None:
    x, norm = randn(2, 20, 8, 8), nn.GroupNorm(4, 20)
    assert torch.equal(Native(kernels).norm_relu_pool(x, norm), Engine().norm_relu_pool(x, norm))


@pytest.mark.parametrize("channels", [3, 32, 37])
def test_autocast_rounds_products_to_bfloat16_only(
    kernels: Kernels, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "matrix_unit", lambda: False)
    layer = nn.Conv2d(channels, 20, 3, padding=1)
    x, slopes = randn(5, channels, 13, 13), randn(5, 20, 13, 13, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        result = Native(kernels).convolve(x, layer)
        gradients = Native(kernels).weight_gradients(x, slopes, layer, [2, 5])
    assert result.dtype == gradients.dtype == torch.float32
    close(result, layer(x).double(), 0.06)
    close(gradients, Engine().weight_gradients(x, slopes, layer, [2, 5]).double(), 0.06)
    if channels == 32 and "avx512_bf16" in Path("/proc/cpuinfo").read_text():
        assert not torch.equal(result, Native(kernels).convolve(x, layer))
        assert not torch.equal(gradients, Native(kernels).weight_gradients(x, slopes, layer, [2, 5]))


def test_kernels_can_be_pickled(kernels: Kernels) -> None:
    x, weight = randn(2, 20, 8, 8), randn(4, 20, 3, 3)
    again: Kernels = pickle.loads(pickle.dumps(kernels))
    assert torch.equal(again.convolve(x, weight[None], None, [2]), kernels.convolve(x, weight[None], None, [2]))
