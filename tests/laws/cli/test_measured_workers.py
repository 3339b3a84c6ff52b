"""Published runs whose prefill and decode ran on workers apart, and ranks that share the devices of one."""

from pathlib import Path

import pytest

from engine.published.measured.compare import predict, read_measured
from tests.laws.cli.measured_tables import table

ALONE = (
    "source,framework,version,model,system,precision,isl,osl,concurrency,gpus,tp,pp,attn_dp,moe_tp,moe_ep,spec,"
    "ttft_ms,tpot_ms"
)
APART = (
    "source,framework,version,model,system,precision,isl,osl,concurrency,prefill_num_workers,prefill_gpus,prefill_tp,"
    "prefill_attn_dp,prefill_moe_tp,prefill_moe_ep,decode_num_workers,decode_gpus,decode_tp,decode_attn_dp,"
    "decode_moe_tp,decode_moe_ep,spec,ttft_ms,tpot_ms"
)
RUN = "nvidia,vllm,0.18.0,Qwen/Qwen3-32B,h100_sxm,fp8,1024,64"


def of(folder: Path, header: str, *rows: str) -> list:
    return list(predict(read_measured(table(folder, header, *rows))).rows)


def test_workers_apart_are_predicted_by_pools(tmp_path: Path):
    """All such rows were refused. Decoding waits for no prompts; more workers that decode have fewer sequences each."""
    (alone,) = of(tmp_path, ALONE, f"{RUN},16,2,2,1,1,1,1,none,300,12")
    workers = (f"{RUN},16,1,2,2,1,1,1,{many},2,1,1,1,none,300,12" for many in ("1,2", "4,8"))
    one, four = of(tmp_path, APART, *workers)
    assert (one.reason, four.reason) == ("", "")
    assert one.predicted["tpot_s"] < 0.9 * alone.predicted["tpot_s"]
    assert four.predicted["tpot_s"] < one.predicted["tpot_s"]
    assert four.engine is not None
    assert four.engine.workers == (1, 4)
    assert four.scenario is not None
    assert four.scenario.devices == 2


@pytest.mark.parametrize("workers", ["2,3,1,1,1,1,1,2,2,1,1,1", "0,2,2,1,1,1,1,2,2,1,1,1", "1,2,2,1,1,1,,2,2,1,1,1"])
def test_devices_that_workers_can_t_share_are_refused(workers: str, tmp_path: Path):
    (row,) = of(tmp_path, APART, f"{RUN},16,{workers},none,300,12")
    assert row.reason.endswith("workers: each needs as many")


def test_some_ranks_of_attention_may_share_the_devices_of_an_engine(tmp_path: Path):
    """Four devices as two ranks of two lie between one rank of four and four of one."""
    several = [f"{RUN},32,4,{tp},1,{ranks},4,1,none,300,12" for tp, ranks in ((4, 1), (2, 2), (1, 4), (4, 2))]
    *rows, contradicted = of(tmp_path, ALONE, *several)
    assert [row.reason for row in rows] == [""] * 3
    assert len({row.predicted["tpot_s"] for row in rows}) == 3
    assert contradicted.reason == "tp is 4: 4 devices in 2 ranks are 2 each"
