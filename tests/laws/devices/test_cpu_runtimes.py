"""Runtimes of a CPU: what threads, operators and calls cost, fewer multiplications, and clocks of few cores."""

from dataclasses import replace

import numpy as np
import pytest

from engine.devices.common.contract import COMPUTE, OFFCHIP, OVERHEAD
from engine.devices.common.counts import records
from engine.devices.common.job import Job
from engine.devices.cpu import family
from engine.devices.cpu.fields import RUNTIME
from engine.devices.cpu.flags import WIDE_INPUT, F
from engine.devices.cpu.share import R
from engine.devices.cpu.streams import BUSY, MOVED
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from hardware_specs.catalog import default_catalog
from tests.laws.devices.test_cpu import job

NETS = ("resnet50", "mobilenet-v2", "vgg16", "bert-base", "wide-deep-criteo", "deepbench-lstm-256", "ssd-resnet34-300")


def run(runtime: str, device: str, net: str, **changes) -> Job:
    """A job as a runtime sets it."""
    base = job(device, net, **changes)
    setting = RUNTIME.settings[runtime]
    return replace(
        base, model=dict(base.model) | dict(setting.parameters), switches=base.switches | dict(setting.switches)
    )


def seconds(j: Job) -> float:
    return family.price(j).total_s + sum(s for _, _, s in family.request(j))


@pytest.mark.parametrize("net", NETS)
def test_each_runtime_is_a_choice_with_an_answer_of_its_own(net):
    usual = default_scenario("xeon-8380", net).with_(precision="fp32", tile=(4,))
    times = {name: evaluate(usual.with_(runtime=name)).latency_s for name in RUNTIME.settings}
    assert len({round(t, 9) for t in times.values()}) == len(RUNTIME.settings)
    assert evaluate(usual).latency_s not in times.values()


@pytest.mark.parametrize("runtime", RUNTIME.settings)
def test_no_operator_of_a_runtime_beats_its_roof(runtime):
    """TensorFlow's INT8 convolutions ran at 1.12 times the peak of every part."""
    for device in ("xeon-8380", "raspberry-pi-4", "loongson-3a5000", "core-i3-8100"):
        for net in NETS:
            for precision in set(family.formats(default_catalog().device(device))) - {"binary"}:
                cost = family.price(run(runtime, device, net, batch=100, format=precision))
                assert (cost.flops <= cost.seconds.sum(axis=1) * cost.peak * (1 + 1e-9)).all(), (device, net, precision)


def test_forks_of_many_threads_end_what_a_small_network_gains_of_them():
    """One batch on more and more cores: a large product still gains where a small one already loses."""
    small, large = (
        [seconds(run("onednn-graph", "xeon-8280", net, tile=(t,))) for t in (1, 2, 4, 8, 16, 28)]
        for net in ("mobilenet-v2", "vgg16")
    )
    assert small[0] > small[2]
    assert min(small) < small[-1]
    assert large == sorted(large, reverse=True)
    assert small[0] / small[-1] < 0.5 * large[0] / large[-1] < 14.0


def test_a_board_s_four_threads_give_what_its_memory_leaves():
    """Published: 1.5 to 2.1 times on a Raspberry Pi 4 where its four cores have four times the peak."""
    for net in ("resnet18", "mobilenet-v1", "vgg16"):
        one, four = (seconds(run("ncnn", "raspberry-pi-4", net, tile=(t,))) for t in (1, 4))
        assert 1.3 < one / four < 3.3


def test_threads_that_share_filters_out_wait_for_the_last_task():
    """Published: ResNet-18 gains 5.5 times of 64 threads; its first layers have 64 filters, eight tasks of eight."""
    gains = {}
    for tasks in (8.0, 0.0):
        one, many = (run("ncnn", "epyc-7742", "resnet18", tile=(t,)) for t in (1, 64))
        one, many = (replace(j, model=dict(j.model) | {"task_filters": tasks}) for j in (one, many))
        filters = [op.n.at() for op in one.ops]
        ratio = family.price(one).seconds[:, 0] / np.maximum(family.price(many).seconds[:, 0], 1e-12)
        gains[tasks] = {n: max(r for r, m in zip(ratio, filters, strict=True) if m == n) for n in (64, 128, 512)}
    assert gains[8.0] == pytest.approx({64: 8.0, 128: 16.0, 512: 64.0}, rel=0.35)  # few cores clock higher
    assert gains[8.0][64] < 0.5 * gains[0.0][64]


def test_narrow_cores_fill_their_units_less():
    """A core of two instructions a cycle, in order, computes a board's convolutions longer; four or more are alike."""
    usual = run("ncnn", "raspberry-pi-5", "resnet18", tile=(1,))
    width, times = usual.device.cpu.issue_width, {}
    for issue in (2, 3, 4, 8):
        cpu = usual.device.cpu.model_copy(update={"issue_width": width.model_copy(update={"value": issue})})
        times[issue] = (
            family.price(replace(usual, device=usual.device.model_copy(update={"cpu": cpu}))).seconds[:, 0].sum()
        )
    assert times[2] > 1.05 * times[3] > 1.1 * times[4]
    assert times[4] == times[8]


def test_tiles_multiply_less_and_their_weights_are_more():
    usual = run("ncnn", "raspberry-pi-5", "vgg16", tile=(1,))
    windows = replace(usual, model=dict(usual.model) | {"winograd": 1.0})
    tiled, plain = (family.price(j) for j in (usual, windows))
    assert tiled.total_s < 0.7 * plain.total_s
    three = [i for i, op in enumerate(usual.ops) if op.kind == "Conv" and op.name != "conv1-1"]
    gain = plain.flops[three] / tiled.flops[three]
    assert (gain >= 1.0).all()
    assert gain.max() <= 4.0
    assert gain[-1] < gain.max()  # the last maps are 14 pixels wide: their last tiles are half empty
    assert (tiled.offchip[three] >= plain.offchip[three] * (1 - 1e-9)).all()
    strided = run("ncnn", "raspberry-pi-5", "mobilenet-v1", tile=(1,))  # depthwise windows have no tiles
    same = replace(strided, model=dict(strided.model) | {"winograd": 1.0})
    assert family.price(strided).total_s == family.price(same).total_s


def test_weights_stream_past_all_pixels_of_a_tile():
    """ResNet-18's last maps are 49 pixels, three tiles and a part: a third of their products hides what DRAM sends."""
    usual = run("ncnn", "raspberry-pi-5", "resnet18", tile=(1,))
    out = family._columns(usual)
    last = [i for i, op in enumerate(usual.ops) if op.kind == "Conv" and op.m.at() == 49 and op.k.at() == 9 * 512]
    assert (out[last, OFFCHIP] > out[last, BUSY]).all()
    assert out[last, COMPUTE] == pytest.approx(out[last, BUSY] * (1.0 - 16.0 / 49.0))


def test_tiles_of_int8_multiply_in_16_bits():
    """Where dot products are eight times as fast (Cortex-A76) windows are multiplied as they are.

    Where bytes take three instructions (A72, A53) tiles are faster: by four times the rate of 16 bits over theirs at
    most.
    """
    gains = {}
    for part in ("raspberry-pi-5", "raspberry-pi-4", "rk3399-a53"):
        usual = run("ncnn", part, "vgg16", format="int8", tile=(1,))
        windows = replace(usual, model=dict(usual.model) | {"winograd": 1.0})
        gains[part] = (family.price(windows).flops / family.price(usual).flops).max()
    assert gains["raspberry-pi-5"] == 1.0
    assert 1.5 < gains["raspberry-pi-4"] <= 4.0 * 8.0 / 16.0
    assert 2.0 < gains["rk3399-a53"] <= 4.0 * 8.0 / (32.0 / 3.0)


def test_a_runtime_s_own_code_takes_a_narrower_core_longer():
    """Two, three and four instructions a cycle: issue of operators and of the call, and nothing else of a pass."""
    usual = run("eager", "raspberry-pi-4", "shufflenet-v2", tile=(1,))
    width = usual.device.cpu.issue_width
    own, rest = [], []
    for instructions in (2, 3, 4):
        cpu = usual.device.cpu.model_copy(update={"issue_width": width.model_copy(update={"value": instructions})})
        j = replace(usual, device=usual.device.model_copy(update={"cpu": cpu}))
        free = replace(j, model=dict(j.model) | {"op_cycles": 0.0, "pass_cycles": 0.0})
        own.append((seconds(j) - seconds(free)) * instructions)
        rest.append(seconds(free))
    assert own == pytest.approx([own[0]] * 3)
    assert rest == [rest[0]] * 3


def test_a_recurrence_is_issued_once_and_a_chain_of_layers_each_time():
    def cost(net: str) -> float:
        usual = run("onednn-graph", "xeon-8280", net, tile=(1,))
        dear = replace(usual, model=dict(usual.model) | {"op_cycles": usual.model["op_cycles"] + 33e3})
        return (family.price(dear).total_s - family.price(usual).total_s) / 33e3

    lstm, ops = job("xeon-8280", "deepbench-lstm-256"), len(job("xeon-8280", "deepbench-lstm-256").ops)
    assert max(op.steps.at(1, lstm.length, lstm.context) for op in lstm.ops) > 4
    assert cost("deepbench-lstm-256") * 4.0e9 <= ops * 1.3
    assert cost("resnet50") * 4.0e9 > 50


@pytest.mark.parametrize("device", ["xeon-8280", "xeon-8380", "ryzen-v1605b", "snapdragon-855"])
def test_few_cores_run_faster_than_all_and_no_core_above_its_turbo(device):
    spec = default_catalog().device(device)
    cores = int(spec.cpu.cores.si)
    clock, peak = [], []
    for t in range(1, cores + 1):
        record = family.FAMILY.compiled.record(job(device, "resnet50", tile=(t,)))
        clock.append(record[R.clock])
        peak.append(record[R.low_peak])
    assert clock == sorted(clock, reverse=True)
    assert clock[0] == pytest.approx(spec.cpu.turbo.si)
    assert clock[-1] == pytest.approx(spec.cpu.clock.si)
    assert peak == sorted(peak)
    assert peak[-1] == pytest.approx(family.peak(spec, "fp32"))
    busy = family.FAMILY.compiled.record(job(device, "resnet50", tile=(1,), streams=cores))
    assert busy[R.clock] == pytest.approx(spec.cpu.clock.si)  # the other streams' cores are as active


BETTER = (R.low_peak, R.wide_peak, R.dram, R.core_dram, R.shared_rate, R.private_rate, R.clock, R.vector_rate)
WORSE = (R.op_issue, R.op_overhead, R.barrier, R.fork_thread, R.score_cycles, R.reordered, R.winograd_weights)


@pytest.mark.parametrize("net", ["mobilenet-v2", "bert-base", "ssd-resnet34-300"])
def test_better_parts_are_never_slower_over_random_designs(net):
    """20,000 designs side by side: each field of a part better, or a cost of a runtime less, one at a time."""
    draw = np.random.default_rng(31)
    count = 20_000 // 3
    runtimes = draw.choice(list(RUNTIME.settings), 40)
    parts = draw.choice(["xeon-8280", "xeon-8380", "raspberry-pi-4", "rk3588-a76", "epyc-7742"], 40)
    for at, (runtime, part) in enumerate(zip(runtimes, parts, strict=True)):
        some = count // 40
        cores = int(default_catalog().device(part).cpu.cores.si)
        batch, threads = int(draw.integers(1, 65)), int(draw.integers(1, cores + 1))
        base = run(runtime, part, net, batch=batch, tile=(threads,), format="int8" if at % 2 else "fp32")
        first = np.array(family.FAMILY.compiled.record(base))
        fields = np.array([*BETTER, *WORSE])
        values = first[fields][:, None] * draw.uniform(0.3, 3.0, (len(fields), some))
        turned = values.copy()
        which = draw.integers(0, len(fields), some)
        factor = draw.uniform(1.0, 4.0, some)
        turned[which, np.arange(some)] *= np.where(which < len(BETTER), factor, 1.0 / factor)
        sizes = np.repeat(np.array([base.sizes], dtype=np.float64).T, some, axis=1)
        tables, rows = family.FAMILY.compiled.tables(base), np.arange(len(base.ops))
        ones, totals = np.ones(len(rows)), np.zeros((2, 6, some))
        for turn, total in zip((values, turned), totals, strict=True):
            family.FAMILY.compiled.points(0, some, rows, ones, *tables, 1.0, sizes, (first, fields, turn), total)
        before, after = totals.sum(axis=1)
        assert (after <= before * (1 + 1e-9)).all(), (runtime, part, which[np.argmax(after / before)])


def test_records_of_a_runtime_are_the_job_s():
    """The flat record that sweeps price from holds what the runtime sets."""
    for name in RUNTIME.settings:
        j = run(name, "xeon-8280", "resnet50")
        assert records([family.FAMILY.compiled.record(j)])[0][R.winograd] == j.model["winograd"]


def test_what_no_product_may_fold_runs_by_itself():
    """A normalisation behind a sum folds into no product, so the next one quantises a wide input; v1 has none of it."""
    passes = {
        net: run("tensorflow", "xeon-8380", net, format="int8", tile=(4,)) for net in ("resnet50-v1", "resnet50-v2")
    }
    wide = {net: int((family.tables(j)[1][:, F.quantise] == WIDE_INPUT).sum()) for net, j in passes.items()}
    assert wide["resnet50-v2"] > wide["resnet50-v1"] + 15  # one for each of sixteen blocks
    assert seconds(passes["resnet50-v2"]) > 1.3 * seconds(passes["resnet50-v1"])


def test_no_sum_rides_on_a_convolution_whose_result_is_multiplied_with_a_constant_first():
    """Inception-ResNet v2 scales what each block adds: its INT8 was said 50% faster than published on a Xeon 8280."""
    usual = run("tensorflow", "xeon-8380", "inception-resnet-v2", format="int8", tile=(4,))
    inline = dict(zip((op.name for op in usual.ops), family.tables(usual)[1][:, F.inline], strict=True))
    scaled = [op.name for op in usual.ops if op.kind == "Mul"]
    sums = [op.name for op in usual.ops if set(op.inputs) & set(scaled)]
    assert len(scaled) == len(sums) == 40
    assert not any(inline[name] for name in (*scaled, *sums))
    gate = run("tensorflow", "xeon-8380", "efficientnet-b0", format="int8", tile=(4,))
    rides = dict(zip((op.name for op in gate.ops), family.tables(gate)[1][:, F.inline], strict=True))
    assert all(rides[op.name] for op in gate.ops if op.kind == "Mul"), "a gate is a tensor, which rides as before"


def test_a_depthwise_convolution_in_tensorflow_is_followed_by_operators_of_their_own():
    fp32, int8 = (run("tensorflow", "xeon-8380", "mobilenet-v1", format=f, tile=(4,)) for f in ("fp32", "int8"))
    times = [[seconds(replace(j, model=j.model | {"loose_grouped": n})) for n in (0.0, 2.0)] for j in (fp32, int8)]
    assert times[0][1] > 1.1 * times[0][0]
    assert times[1][1] == times[1][0]  # quantised graphs have them folded


def test_streams_wait_for_dram_as_long_as_all_their_bytes_take_and_no_longer():
    """VGG16 streams its weights in bursts: ten at once share the bandwidth over a pass, not in each burst."""
    ten = job("xeon-8380", "vgg16", format="fp32", tile=(4,), streams=10)
    usual, plenty, little = (replace(ten, model=ten.model | {"dram_efficiency": e}) for e in (0.8, 1.0, 0.02))
    assert seconds(usual) == pytest.approx(seconds(plenty), rel=1e-12)
    moved, dram = family._columns(little)[:, MOVED].sum(), family.FAMILY.compiled.record(little)[R.dram]
    assert family.price(little).total_s == pytest.approx(10 * moved / dram, rel=1e-9)


@pytest.mark.parametrize(
    ("parts", "times"),
    [
        (("core-i3-8100",), 2.0),  # bytes multiplied and added in pairs, then pairs of pairs, on two ports
        (("epyc-7742", "ryzen-v1605b"), 1.0),  # the same, both on the one port that multiplies integers
        (("xeon-8280", "xeon-8380", "core-i7-1185g7", "core-i9-12900k"), 4.0),  # VNNI: in one instruction
    ],
)
def test_int8_goes_by_what_the_vector_instructions_multiply(parts, times):
    for device in map(default_catalog().device, parts):
        rates = device.cpu.flop_per_cycle
        assert rates["int8"].si / rates["fp32"].si == times, device.id


def test_what_no_row_shows_of_openvino_lies_between_the_runtimes_it_is_assumed_between():
    """A score of a box was compared in 190 cycles, more than any runtime with rows takes: 46 ms of YOLOv3's 75."""
    own, *others = (RUNTIME.settings[name].parameters for name in ("openvino", "onednn-graph", "onnxruntime"))
    low, high = sorted(each["score_cycles"] for each in others)
    assert low <= own["score_cycles"] <= high


@pytest.mark.parametrize("net", ["resnet50", "mobilenet-v1", "vgg16"])
def test_scales_set_beforehand_need_no_operator_and_sums_are_moved_all_the_same(net):
    """INT8 of boards was priced as if products stored bytes: four threads of a Pi 5 were 25% faster than measured."""
    usual = run("ncnn", "raspberry-pi-5", net, format="int8", tile=(4,))
    fused = replace(usual, switches=usual.switches | {"fuse-requantise": True})
    measured = replace(usual, model=usual.model | {"static_scales": 0.0})
    cost, narrow, apart = family.price(usual), family.price(fused), family.price(measured)
    sums = [op.contraction and op.quantisable and op.stored > 0 for op in usual.ops]
    written = np.array([op.writes.at(1) for op in usual.ops])[sums] * usual.model["write_allocate"] * 4.0
    more = (cost.offchip + cost.onchip - narrow.offchip - narrow.onchip)[sums]
    assert (more >= written * (1 - 1e-9)).all()  # stored by 32 bits, and read back
    issued = [c.seconds[sums, OVERHEAD] for c in (cost, narrow, apart)]
    assert issued[0] == pytest.approx(issued[1])
    assert (issued[2] > issued[0]).all()
    assert apart.total_s > cost.total_s > narrow.total_s
