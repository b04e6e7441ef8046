"""What is special to the MAF; `tests/contracts` has what holds for every flow."""

from __future__ import annotations

import pytest
import torch

from flowratio import MAF


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_one_block_is_the_formula() -> None:
    flow = MAF(3, n_blocks=1, hidden=(8,), generator=generator()).double()
    x = torch.randn(6, 3, dtype=torch.float64, generator=generator(1))
    shift, raw = flow._nets[0](x).unbind(1)
    log_scale = 2.0 * torch.tanh(raw / 2.0)
    z, log_det = flow(x)
    torch.testing.assert_close(z, ((x + shift) * log_scale.exp()).flip(1))
    torch.testing.assert_close(log_det, log_scale.sum(1))


def test_log_scales_are_bounded() -> None:
    flow = MAF(2, n_blocks=1, hidden=(8,), max_log_scale=2.0, generator=generator()).double()
    with torch.no_grad():
        flow._nets[0].theta.mul_(1e6)
    _, log_det = flow(torch.randn(50, 2, dtype=torch.float64, generator=generator(1)))
    # the first coordinate's log-scale is its bias, which starts at 0; the second's is far beyond the bound
    torch.testing.assert_close(log_det.abs(), torch.full((50,), 2.0, dtype=torch.float64))


def test_batch_norm_uses_the_batch_in_training_and_running_averages_after() -> None:
    flow = MAF(2, n_blocks=2, hidden=(8,), batch_norm=True, generator=generator())
    x = 3 + 2 * torch.randn(500, 2, generator=generator(1))
    z, _ = flow(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(2), atol=1e-3, rtol=0)
    assert not torch.equal(flow.running_mean, torch.zeros(2, 2))
    for _ in range(100):  # 0.9^100 of the starting values is left
        flow(x)
    flow.eval()
    original = flow.running_mean.clone()
    torch.testing.assert_close(flow(x)[0], z, atol=1e-2, rtol=0)  # n/(n−1) in the running variance
    assert torch.equal(flow.running_mean, original)


def test_batch_norm_is_inverted_in_evaluation_only() -> None:
    flow = MAF(2, batch_norm=True, generator=generator())
    with pytest.raises(RuntimeError, match=r"\.eval\(\)"):
        flow.inverse(torch.zeros(3, 2))
    flow.eval().inverse(torch.zeros(3, 2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_blocks": 0}, "`n_blocks` is 0. Use an integer of 1 or more"),
        ({"max_log_scale": 0.0}, "`max_log_scale` is 0.0. Use a number above 0"),
        ({"hidden": ()}, "Use the widths of one or more layers"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MAF(2, **arguments)  # pyright: ignore[reportArgumentType]


def test_no_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`n_features` is 0. Use an integer of 1 or more"):
        MAF(0)
