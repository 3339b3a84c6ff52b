"""``python -m engine op``: one operator of a GPU, tables of them, and what is wrong with either in a sentence."""

import csv
import json
import lzma
from pathlib import Path

import pytest

from engine.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["op", *argv])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_one_operator_is_told_and_given_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "--device", "h100-sxm", "gemm", "--shape", "4096x4096x8192", "--precision", "fp8", "--json"
    )
    data = json.loads(out)
    assert code == 0
    assert data["band_low_us"] < data["predicted_us"] < data["band_high_us"]
    assert data["bound_us"] < data["predicted_us"]
    assert data["bound_by"] == "compute"
    code, out, _ = run(capsys, "--device", "h100_sxm", "gemm", "--shape", "4096x4096x8192", "--precision", "fp8")
    assert code == 0
    assert "90% band" in out


@pytest.mark.parametrize(
    ("runtime", "device", "format", "kernel"),
    [
        ("trtllm", "b200_sxm", "nvfp4", "trtllm-low-latency"),
        ("trtllm", "b200_sxm", "bfloat16", "trtllm"),
        ("vllm", "b300-sxm", "nvfp4", "vllm-flashinfer-trtllm"),
        ("sglang", "b200_sxm", "fp8_block", "sglang-flashinfer-trtllm"),
        ("vllm", "h100_sxm", "int4", "vllm-marlin"),
        ("vllm", "h200_sxm", "bfloat16", "vllm-triton"),
    ],
)
def test_experts_run_the_kernel_that_their_runtime_picks(
    runtime: str, device: str, format: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By runtime, part and format, and it is named; a row that names another kernel takes that one's time."""
    shape = ("--shape", "64x7168x2048x8x256", "--precision", format, "--runtime", runtime, "--device", device)
    code, out, _ = run(capsys, "moe", *shape, "--json")
    said = json.loads(out)
    assert (code, said["expert_kernel"]) == (0, kernel)
    assert said["band_low_us"] < said["predicted_us"] < said["band_high_us"]
    code, out, _ = run(capsys, "moe", *shape, "--json", "--with", "kernel=moe_torch_flow_cutlass")
    other = json.loads(out)
    assert code == 0
    assert (other["predicted_us"] == said["predicted_us"]) == (other["expert_kernel"] == kernel)


def test_a_file_s_kind_is_what_its_name_begins_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "moe_runtimes.csv"
    head = "device,framework,kernel,dtype,tokens,hidden,inter,topk,experts,time_us"
    file.write_text(f"{head}\nb200_sxm,trtllm,moe_torch_flow_min_latency,nvfp4,4,7168,2048,8,256,100\n")
    code, out, _ = run(capsys, "--from", str(file), "--json")
    assert (code, json.loads(out)["kind"], json.loads(out)["predicted"]) == (0, "moe", 1)


def test_rows_come_back_whole_with_an_answer_or_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "device,kernel,dtype,m,n,k,time_us\n"
        'h100_sxm,"a, b",bfloat16,64,4096,4096,14.1\n'
        "no_such_part,x,bfloat16,64,4096,4096,14.1\n"
        "h100_sxm,x,no_such_format,64,4096,4096,14.1\n"
        "mi300x,x,bfloat16,64,4096,4096,14.1\n"
    )
    source, out = tmp_path / "gemm.csv.xz", tmp_path / "predicted.csv"
    with lzma.open(source, "wt") as file:
        file.write(text)
    code, told, _ = run(capsys, "--from", str(source), "--out", str(out), "--json")
    data = json.loads(told)
    assert code == 0
    assert data["rows"] == 4
    assert data["predicted"] == 1
    assert sum(data["skipped"].values()) == 3
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["m"] for row in rows] == ["64"] * 4
    assert rows[0]["kernel"] == "a, b"
    assert float(rows[0]["band_low_us"]) < float(rows[0]["predicted_us"]) < float(rows[0]["band_high_us"])
    assert rows[0]["reason"] == ""
    assert all(row["reason"] and not row["predicted_us"] for row in rows[1:])


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("device,dtype,m,n,k,zork", "h100_sxm,fp8,1,2,3,4", "zork"),
        ("device,dtype,m,n,k,time", "h100_sxm,fp8,1,2,3,4", "time_us"),
        ("device,dtype,m,n", "h100_sxm,fp8,1,2", "'k' is missing"),
        ("device,dtype,m,n,k", "h100_sxm,fp8,1,-2,3", "n is -2"),
        ("device,dtype,m,n,k", "h100_sxm,fp8,1,2,3.5", "k is 3.5"),
        ("device,dtype,m,n,k", "h100_sxm,fp8,one,2,3", "m is 'one'"),
        ("device,dtype,m,n,k", "h100_sxm,fp8,nan,2,3", "m is nan"),
        ("device,dtype,m,n,k,time_us", "h100_sxm,fp8,1,2,3,-4", "time_us is -4"),
        ("device,dtype,m,n,k", "h100_sxm,fp8,1,2", "line 2: 4 fields"),
        ("device,dtype,m,m,k", "h100_sxm,fp8,1,2,3", "twice"),
        ("device,dtype,m,n,k", "", "no rows"),
    ],
)
def test_a_bad_table_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], header: str, row: str, words: str
) -> None:
    source = tmp_path / "gemm.csv"
    source.write_text(f"{header}\n{row}\n")
    code, out, said = run(capsys, "--from", str(source))
    assert code == 2
    assert not out
    assert words in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("gemm",),
        ("zork", "--device", "h100-sxm", "--shape", "1x2x3"),
        ("gemm", "--device", "h100-sxm", "--shape", "1x2"),
        ("gemm", "--device", "h100-sxm", "--shape", "1x2x-3"),
        ("gemm", "--device", "nope", "--shape", "1x2x3"),
        ("gemm", "--device", "h100-sxm", "--shape", "1x2x3", "--precision", "zork"),
        ("gemm", "--device", "a100-sxm-80gb", "--shape", "1x2x3", "--precision", "fp8"),
        ("gemm", "--device", "h100-sxm", "--shape", "1x2x3", "--out", "x.csv"),
        ("gemm", "--from", "gemm.csv"),
        ("--from", "zork.csv"),
        ("--from", "no/gemm.csv"),
        ("gemm", "--device", "h100-sxm", "--shape", "1x2x3", "--with", "zork=1"),
    ],
)
def test_a_bad_question_is_one_sentence(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    code, out, said = run(capsys, *argv)
    assert code == 2
    assert not out
    assert len(said.splitlines()) == 1
