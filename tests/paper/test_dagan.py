from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from flowratio import TrainingDiverged
from flowratio_paper import dagan
from flowratio_paper.dagan import Critic, Dagan, DaganSettings, Generator, same_class

TINY = DaganSettings(
    channels=8,
    noise=4,
    steps=4,
    critic_steps=2,
    batch_size=6,
    learning_rate=3e-4,
    critic_rate=1e-3,
)
LABELS = np.repeat(np.arange(4), 5)
GRAYS = torch.linspace(-1, 1, 256)


def _generator(values: Tensor = GRAYS, **settings: float) -> Generator:
    return Generator(replace(TINY, **settings), values, torch.Generator().manual_seed(0))


def _bars(seed: int = 0) -> np.ndarray:
    """Drawings of four classes: a bar at one of four heights, longer or shorter, in two grey values and black."""
    rng = np.random.default_rng(seed)
    images = np.zeros((20, 28, 28), np.uint8)
    for image, label in zip(images, LABELS, strict=True):
        image[4 + 6 * label, 2 : rng.integers(15, 26)] = rng.choice([200, 255])
    return images


def test_pairs_are_two_images_of_a_class() -> None:
    labels = np.array([2, 0, 2, 1, 0, 2, 1])
    of, other = same_class(labels, np.random.default_rng(0), 4000)
    assert np.array_equal(labels[of], labels[other])
    assert (of != other).all()
    counts = np.zeros((7, 7), int)
    np.add.at(counts, (of, other), 1)
    expected = (labels[:, None] == labels) & ~np.eye(7, dtype=bool)
    expected = expected / expected.sum(axis=1, keepdims=True) * 4000 / 7
    # each count is binomial: five standard deviations
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_a_class_of_one_image_has_no_pairs() -> None:
    with pytest.raises(ValueError, match=r"A class has one image\. Use two or more"):
        same_class(np.array([0, 0, 1]), np.random.default_rng(0), 5)


@pytest.mark.parametrize("warp", [0.0, 0.3])
def test_networks_leave_global_generators_alone_and_images_do_not_depend_on_each_other(warp: float) -> None:
    state = torch.get_rng_state()
    generator = _generator(warp=warp)
    for last in filter(None, (generator.output, generator.field)):
        nn.init.constant_(last.get_parameter("weight"), 0.1)  # else the images are copies
    critic = Critic(8, torch.Generator().manual_seed(0))
    x, u = torch.linspace(-1, 1, 5 * 784).view(5, 1, 28, 28), torch.linspace(-2, 2, 20).view(5, 4)
    generated = generator(x, u)
    assert generated.shape == (5, 1, 28, 28)
    assert generated.abs().max() <= 1
    assert critic(x, generated).shape == (5,)
    torch.testing.assert_close(generator(x[3:4], u[3:4]), generated[3:4])
    assert not torch.allclose(generator(x[3:4], u[4:5]), generated[3:4])  # noise counts
    assert torch.equal(torch.get_rng_state(), state)


def test_an_image_is_bent_by_the_field_and_paper_comes_in() -> None:
    generator = _generator(warp=0.5)
    x, u = torch.from_numpy(_bars()).float().view(20, 1, 28, 28) / 127.5 - 1, torch.zeros(20, 4)
    assert generator.field is not None
    pixel = 2 / 27  # images are from -1 to 1
    field = torch.tensor([3 * pixel, -2 * pixel])
    with torch.no_grad():
        generator.field.get_parameter("bias").copy_(torch.atanh(field / 0.5))
        moved = generator(x, u)
    expected = torch.full_like(x, -1)
    expected[:, :, 2:, :-3] = x[:, :, :-2, 3:]
    torch.testing.assert_close(moved, expected)


def test_the_field_is_continuous_between_its_knots() -> None:
    generator = _generator(warp=0.5)
    generator.field = nn.Identity()
    knots = torch.zeros(1, 2, 7, 7)
    knots[0, 0] = torch.atanh(torch.linspace(-1, 1, 7) / 3)  # along x, a sixth of the place: it is linear in between
    x = torch.linspace(-1, 1, 28).expand(1, 1, 28, 28)
    inner = slice(4, 24)  # what is taken from within the image
    expected = (1 + 1 / 6) * x[..., inner]
    torch.testing.assert_close(generator._bent(x, knots)[..., inner], expected)


def test_the_first_images_are_copies_of_every_grey_value() -> None:
    x = GRAYS.repeat(5)[: 784 + 28].unfold(0, 784, 28).reshape(2, 1, 28, 28)
    for generator in (_generator(), _generator(warp=0.2, paint=0.1)):
        torch.testing.assert_close(generator(x, torch.ones(2, 4)), x)


def test_what_is_made_takes_the_values_of_real_images_and_can_be_moved_by_any_amount() -> None:
    generator = _generator(torch.tensor([-1.0, 0.5, 1.0]))
    x = torch.linspace(-0.9, 0.9, 784).view(1, 1, 28, 28)
    generated = generator(x, torch.zeros(1, 4))
    assert generated.unique().tolist() == [-1.0, 0.5, 1.0]
    flat = x.flatten()
    torch.testing.assert_close(generated.flatten(), torch.where(flat < -0.25, -1.0, torch.where(flat < 0.75, 0.5, 1.0)))
    generated.sum().backward()
    bias = generator.output.get_parameter("bias")
    assert bias.grad is not None
    # straight through: the slope of 1.1 tanh(atanh(x / 1.1) + b) in b at 0, at each pixel
    torch.testing.assert_close(bias.grad[0], (1.1 * (1 - (x / 1.1) ** 2)).sum())


class _QuadraticCritic(nn.Module):
    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return (0.05 * other**2 - x).flatten(1).sum(1)


def test_the_critic_has_the_loss_of_wgan_with_a_gradient_penalty() -> None:
    model: Any = Dagan(_bars(), LABELS, TINY, seed=0)
    model.critic = _QuadraticCritic()
    x, other, generated = np.random.default_rng(1).normal(size=(3, 6, 1, 28, 28)).astype(np.float32)
    gap, loss = model._critic_loss(*map(torch.from_numpy, (x, other, generated)), np.random.default_rng(0))
    assert gap == pytest.approx(0.05 * 784 * ((other**2).mean() - (generated**2).mean()), rel=1e-4)
    # the gradient is a tenth of the image where it is taken: between other and made
    at = np.random.default_rng(0).random((6, 1, 1, 1), np.float32)
    between = other + at * (generated - other)
    lengths = 0.1 * np.sqrt((between**2).sum(axis=(1, 2, 3)))
    assert np.ptp(lengths) > 0.1  # a penalty at another point is another number
    assert loss.item() == pytest.approx(10 * np.mean((lengths - 1) ** 2) - gap, rel=1e-4)


class _Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        return ((self.at * x).sin() ** 2).sum()


def test_steps_are_those_of_adam() -> None:
    ours, theirs = _Point(), _Point()
    optimizer = dagan._adam(ours, 0.1)
    peer = torch.optim.Adam(theirs.parameters(), 0.1, betas=(0.0, 0.9), foreach=False)
    for k in range(3):
        x = torch.arange(6.0) + k
        dagan._step_down(optimizer, ours(x))
        peer.zero_grad()
        theirs(x).backward()
        peer.step()
    torch.testing.assert_close(ours.at, theirs.at)


@pytest.mark.parametrize("bent", [{}, {"warp": 0.2, "paint": 0.1}])
def test_training_turns_copies_into_other_drawings(bent: dict[str, float]) -> None:
    images = _bars().reshape(20, 784)
    settings = replace(TINY, steps=60, critic_steps=1, batch_size=8, learning_rate=3e-3, critic_rate=3e-3, **bent)
    model = Dagan(images, LABELS, settings, seed=0)
    assert np.array_equal(model.generate(images, 0), images)
    generated = model.train().generate(images, 0)
    assert len(model.gaps) == 60
    assert (generated != images).any(axis=1).all()
    assert generated.shape == (20, 784)
    assert set(np.unique(generated)) <= {0, 200, 255}
    # a bar has 13 to 24 of 784 pixels; without a critic that knows it, ink would cover anything from none to all
    assert 5 < (generated > 0).sum(axis=1).mean() < 100
    assert np.array_equal(model.generate(images, 0), generated)
    assert not np.array_equal(model.generate(images, 1), generated)


def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagan, "_CHECKPOINT_SECONDS", 0.0)
    whole = Dagan(_bars(), LABELS, TINY, seed=1).train()
    killed = Dagan(_bars(), LABELS, TINY, seed=1)
    step = killed._step

    def breaks(x: Tensor) -> None:
        if len(killed.gaps) == 2:
            raise KeyboardInterrupt
        step(x)

    monkeypatch.setattr(killed, "_step", breaks)
    with pytest.raises(KeyboardInterrupt):
        killed.train(tmp_path)
    resumed = Dagan(_bars(), LABELS, TINY, seed=1).train(tmp_path)
    assert resumed.gaps == whole.gaps
    for ours, theirs in zip(resumed.average.parameters(), whole.average.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert np.array_equal(resumed.generate(_bars(), 0), whole.generate(_bars(), 0))
    outcomes = Dagan(_bars(), LABELS, TINY, seed=1)
    monkeypatch.setattr(outcomes, "_step", lambda x: pytest.fail("all steps were taken"))
    assert outcomes.train(tmp_path).gaps == whole.gaps


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    Dagan(_bars(), LABELS, TINY, seed=1).train(tmp_path)
    with pytest.raises(ValueError, match=r"belongs to another run\. It differs in seed"):
        Dagan(_bars(), LABELS, TINY, seed=2).train(tmp_path)
    with pytest.raises(ValueError, match=r"belongs to another run\. It differs in images"):
        Dagan(_bars(1), LABELS, TINY, seed=1).train(tmp_path)
    with pytest.raises(ValueError, match=r"belongs to another run\. It differs in channels"):
        Dagan(_bars(), LABELS, replace(TINY, channels=16), seed=1).train(tmp_path)


@pytest.mark.parametrize("rate", [10.0, 1e30])  # the gap of the first stays finite, the second's does not
def test_a_critic_that_runs_away_ends_the_run(rate: float) -> None:
    settings = replace(TINY, steps=50, critic_steps=1, critic_rate=rate)
    with pytest.raises(TrainingDiverged, match=r"Use lower rates than 0.0003 and (10|1e\+30)"):
        Dagan(_bars(), LABELS, settings, seed=0).train()


@pytest.mark.parametrize(
    ("images", "labels", "settings", "message"),
    [
        (np.zeros((20, 27, 28), np.uint8), LABELS, TINY, "Use images of 28 × 28 pixels"),
        (np.zeros((20, 784)), LABELS, TINY, "Use bytes from 0 to 255"),
        (np.zeros((20, 784), np.uint8), LABELS[:-1], TINY, r"`labels` has the shape \(19,\) for 20 images"),
        (np.zeros((20, 784), np.uint8), LABELS, replace(TINY, channels=12), r"`channels` is 12\. Use a multiple of 8"),
        (
            np.zeros((20, 784), np.uint8),
            LABELS,
            replace(TINY, critic_steps=0),
            r"`critic_steps` is 0\. Use an integer of 1 or more",
        ),
    ],
)
def test_bad_input_is_refused(images: Any, labels: Any, settings: DaganSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dagan(images, labels, settings, seed=0)
