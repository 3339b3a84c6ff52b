"""Studies of networks trained here: they report what was measured, stop when told, and refuse in one sentence."""

import pytest

from engine.cli.main import main
from engine.kernels.jit import JIT_ENABLED
from engine.lab.numerics.trained import wide_deep_study
from engine.lab.timing import MeasurementCancelled
from engine.numerics.formats import NumericsError

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="training needs the speed of compiled loops")


def test_wide_deep_is_judged_in_each_precision():
    steps: list[tuple[int, int]] = []
    study = wide_deep_study(4096, 32, held_out=3000, progress=lambda done, of: steps.append((done, of)))
    assert [q.precision for q in study.quality] == [
        "FP32",
        "INT8 as published",
        "INT8 symmetric first",
        "INT8 calibrated on INT8",
        "INT8 refined",
    ]
    assert study.quality[0].changed == pytest.approx(0, abs=1e-3)
    assert study.quality[0].auc > 0.6
    for q in study.quality[1:]:
        assert abs(q.accuracy - study.quality[0].accuracy) < 0.005
        assert abs(q.auc - study.quality[0].auc) < 0.005
        assert len(q.layers_db) == 4  # what each product is given: codes of 8 bits leave errors of 20 to 60 dB
        assert all(20 < db < 60 for db in q.layers_db)
    assert study.quality[1].layers_db[0] > study.quality[2].layers_db[0]  # a range around zero wastes codes
    assert study.accuracy_loss() == study.quality[0].accuracy - study.quality[1].accuracy
    assert steps == [(i, 11) for i in range(1, 12)]
    rate = {s.precision: s.rate for s in study.speed}
    assert study.gain == rate["INT8 as published"] / rate["FP32"] > 0
    with pytest.raises(MeasurementCancelled):
        wide_deep_study(4096, 32, held_out=3000, progress=lambda done, of: False)


def test_mistakes_are_named(capsys):
    with pytest.raises(NumericsError, match="rows is 10; allowed: 1024 to"):
        wide_deep_study(10)
    with pytest.raises(NumericsError, match="batch is 0; allowed"):
        wide_deep_study(2048, 0)
    assert main(["measure", "wide-deep", "--batch", "0"]) == 2
    assert capsys.readouterr().err == "batch is 0; allowed: 1 to 65536\n"
