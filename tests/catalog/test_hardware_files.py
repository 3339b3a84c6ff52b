"""Hardware files as a user writes them: the template is a device at once, and a bad file is one clear sentence."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from hardware_specs.catalog import Catalog
from hardware_specs.quantity import SpecError
from tests.catalog.test_hardware import CATALOG, DERIVED, ROOT


def copied_template(tmp_path: Path, edit=lambda data: None) -> Catalog:
    (tmp_path / "devices").mkdir(exist_ok=True)
    target = tmp_path / "devices" / "my-accelerator.yaml"
    shutil.copy(ROOT / "TEMPLATE.yaml", target)
    data = yaml.safe_load(target.read_text())
    edit(data)
    target.write_text(yaml.safe_dump(data, sort_keys=False))
    return Catalog(*CATALOG.roots, tmp_path)


def test_template_is_a_device_and_a_system(tmp_path):
    catalog = copied_template(tmp_path)
    device = catalog.device("my-accelerator")
    assert DERIVED["ops-per-watt"](device) == pytest.approx(device.checks[0].value.si, rel=device.checks[0].tolerance)
    system = catalog.system("my-accelerator")
    assert [group.device for group in system.devices] == ["my-accelerator"]
    assert [use.link for use in system.links] == [device.host_link]
    assert "my-accelerator" in catalog.ids("systems")
    assert catalog.digest != CATALOG.digest
    assert "my-accelerator" not in CATALOG.ids("devices")


def put(path: str, value):
    def edit(data):
        *steps, last = path.split("/")
        for step in steps:
            data = data[int(step) if step.isdigit() else step]
        data[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (put("memory/0/bandwith", {"value": "1 TB/s"}), "memory.0.bandwith: unknown key; allowed here are name, role"),
        (put("colour", "red"), "colour: unknown key; allowed here are schema_version, id"),
        (put("memory/0/bandwidth/value", "1.2 TB"), "value '1.2 TB' is in 'B'; 'B/s' is allowed"),
        (put("memory/0/capacity/value", "24 Gbyte"), "memory.0.capacity: unit 'Gbyte' is not known"),
        (put("power/max/source", "other"), "source 'other' is not listed"),
        (put("power/max", {"value": "150 W"}), "power.max: value '150 W' is published: it needs `source` and `where`"),
        (put("power/max", {"value": "150 W", "basis": "assumed"}), "it needs a `note`"),
        (put("power/max", "150 W"), "power.max: must be a mapping"),
        (
            put("power", "150 W"),
            "power: must be a mapping such as {max, idle, loaded}",
        ),  # it was {value, source, where}
        (put("power/max/value", "-5 W"), "value '-5 W' is out of range"),
        (put("peak/fp12", {"value": "1 TFLOP/s"}), "peak.fp12"),
        (put("power/max/value", "0 W"), "power.max: value '0 W' is out of range"),
        (put("memory", []), "memory is empty: the level that holds a network is needed"),
        (put("power/max/value", True), "power.max.value"),
        (put("kind", "npu"), "the block `npu:` is required"),
        (put("kind", "toaster"), "'toaster'"),
        (put("schema_version", 2), "schema_version"),
        (put("id", "other"), "id is 'other'; it must equal the file's name 'my-accelerator'"),
        (put("peak", None), "peak"),
        (lambda data: data.pop("memory"), "memory: is required"),
    ],
)
def test_one_clear_sentence(tmp_path, edit, said):
    catalog = copied_template(tmp_path, edit)
    with pytest.raises(SpecError) as caught:
        catalog.device("my-accelerator")
    message = str(caught.value)
    assert message.startswith("my-accelerator.yaml: ")
    assert said in message
    assert "\n" not in message
    assert len(message) < 500


def test_bad_files(tmp_path):
    folder = tmp_path / "devices"
    folder.mkdir()
    (folder / "twice.yaml").write_text("id: twice\nkind: gpu\nkind: cpu\n")
    (folder / "alias.yaml").write_text("id: alias\nsources: &s {}\npeak: *s\n")
    (folder / "nested.yaml").write_text("[" * 50_000)
    (folder / "broken.yaml").write_text("id: [unclosed\n")
    (folder / "text.yaml").write_text("just words")
    (folder / "huge.yaml").write_text("#" * 300_000)
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    catalog = Catalog(*CATALOG.roots, tmp_path)
    for id, said in (
        ("twice", "key 'kind' is given twice"),
        ("alias", "anchors and aliases are not allowed"),
        ("nested", "not readable as YAML"),
        ("broken", "not readable as YAML"),
        ("text", "document: must be a mapping such as {schema_version, id, name}"),
        ("huge", "more than the"),
        ("binary", "not readable as YAML"),
    ):
        with pytest.raises(SpecError, match=re.escape(said)) as caught:
            catalog.device(id)
        assert "\n" not in str(caught.value)


def test_an_id_is_taken_once(tmp_path):
    (tmp_path / "devices").mkdir()
    shutil.copy(CATALOG.path("devices", "t4"), tmp_path / "devices" / "t4.yaml")
    with pytest.raises(SpecError, match="id 't4' is already taken in devices"):
        Catalog(*CATALOG.roots, tmp_path).device("t4")


def test_unknown_id_names_the_nearest():
    with pytest.raises(SpecError, match="nearest: h100-sxm"):
        CATALOG.device("h100-smx")
    with pytest.raises(SpecError, match="nearest: apple-m1"):
        CATALOG.system("aple-m1")
    with pytest.raises(SpecError, match=r"nearest: h100-nvl, h100-sxm, h100-pcie; the Catalog page, or .* lists all"):
        CATALOG.system("H100")
    with pytest.raises(SpecError, match="'banana' is not in the catalog; the Catalog page, or python -m engine list"):
        CATALOG.system("banana")
    with pytest.raises(SpecError) as caught:
        CATALOG.link("x" * 10_000)
    assert len(str(caught.value)) < 1000


def test_an_older_file_that_names_a_processors_instruction_set_is_read_as_one_without(tmp_path):
    (tmp_path / "devices").mkdir()
    text = CATALOG.path("devices", "raspberry-pi-4").read_text().replace("id: raspberry-pi-4", "id: my-pi")
    (tmp_path / "devices" / "my-pi.yaml").write_text(text.replace("\ncpu:\n", "\ncpu:\n  isa: arm\n"))
    catalog = Catalog(guests=(tmp_path,))
    assert catalog.problems == ()
    ours, theirs = (catalog.device(id).cpu.model_dump() for id in ("my-pi", "raspberry-pi-4"))
    assert ours == theirs
