"""Document 000: every figure is predicted or explained, and what is missed is said."""

import pytest

from engine.published import claims, predictions
from engine.published.facebook_node import shares

TOP = {
    "dlrm-more-complex": ("FC", 30.9),
    "resnext101-32x4d": ("ChannelwiseQuantizedConv", 57.3),
    "fbnetv3-detection": ("ChannelwiseQuantizedConv", 67.0),
    "regnety-128gf": ("ChannelwiseQuantizedConv", 68.1),
    "resnext3d-101": ("Convolution3D", 18.4),
    "xlm-r-large": ("MatMul", 72.5),
}


@pytest.mark.parametrize(
    ("id", "exactly"),
    [("FB-006", (180, 270)), ("FB-007", (24, 36)), ("FB-008", 96), ("FB-009", 91), ("FB-065", 160)],
)
def test_the_node_is_exact(id, exactly):
    assert predictions()[id].value() == pytest.approx(exactly, rel=1e-12)


@pytest.mark.parametrize("workload", sorted(TOP))
def test_the_top_row_of_each_column_is_right_and_within_twelve_points(workload):
    label, printed = TOP[workload]
    found = shares(workload)
    assert sum(found.values()) == pytest.approx(100)
    assert max((v, k) for k, v in found.items() if k != "Others")[1] == label, found
    assert found[label] == pytest.approx(printed, abs=12)


def test_products_and_convolutions_of_the_video_trunk_are_predicted_together():
    """Which 1x1x1 convolutions its compiler runs as products is not printed; what both take together is."""
    both = [claim for claim in claims() if claim["id"] in ("FB-116", "FB-117")]
    found = shares("resnext3d-101")
    printed = sum(claim["value"] for claim in both)
    assert found["MatMul"] + found["Convolution"] == pytest.approx(printed, rel=0.05)
    assert all(f"by their sum, {printed:g}% printed" in " ".join(claim["prediction"]["note"].split()) for claim in both)
