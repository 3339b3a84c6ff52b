"""A model configuration as a workload: read, its parameters found, written down as YAML like any other."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from entries.files import read_bytes
from entries.schema import InputError, one_sentence
from model_zoo.families import FAMILIES, build_graph
from model_zoo.importers.huggingface.decoder import Fields, architecture, decoder
from model_zoo.importers.huggingface.keys import MAX_BYTES, NAMES, Keys, config_of
from model_zoo.importers.huggingface.prefix import encoder, images
from model_zoo.importers.huggingface.quantisation import checkpoint_format
from model_zoo.schema import Number, Request, Source, Workload, WorkloadError

_FAMILY = "transformer-decoder"
_BESIDE = "hf_quant_config.json"
_COUNTS, _HARMLESS = (re.compile("|".join(NAMES[kind])) for kind in ("counting", "harmless"))


def read_config_file(path: Path, id: str | None = None) -> Workload:
    """The workload of a configuration's file, or of the `config.json` of a folder; WorkloadError in one sentence.

    A file `hf_quant_config.json` beside it says how the weights are quantised.
    """
    path = path / "config.json" if path.is_dir() else path
    name = path.parent.name if path.stem == "config" else path.stem.removesuffix("_config").rsplit("--", 1)[-1]
    try:
        data = config_of(read_bytes(path, MAX_BYTES))
        if "quantization" in data and "model_type" not in data:
            raise WorkloadError("it says how weights are quantised: give the model's own config.json beside it")
        quant_path = path.with_name(path.name.removesuffix("config.json") + _BESIDE)
        has_other = path.name.endswith("config.json") and quant_path.is_file()
        beside = config_of(read_bytes(quant_path, MAX_BYTES)) if has_other else None
        return read_config(data, id or id_from(str(data.get("_name_or_path") or "") or name), path.name, beside)
    except InputError as error:
        raise WorkloadError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None


def id_from(name: str) -> str:
    """An id from a name: its last part, in lower case."""
    id = re.sub(r"[^a-z0-9.]+", "-", name.rstrip("/").rsplit("/", 1)[-1].lower()).strip("-.")
    return id[:63] or "imported"


def read_config(
    data: dict[str, Any], id: str, file: str = "config.json", beside: dict[str, Any] | None = None
) -> Workload:
    """The workload that a configuration's keys describe; WorkloadError in one sentence names the key.

    Every parameter names the key it came from; what was not understood is in the notes.
    """
    outside = Keys(data)
    kind = outside.text("model_type")
    inner = outside.under(*NAMES["inner"])
    if inner is not None and (deeper := inner.under("text_config")) is not None:
        inner = deeper
    keys = inner if inner is not None and inner.data else outside
    if not kind and keys is outside:
        raise WorkloadError("key 'model_type' is missing; it names the architecture")
    text_kind = keys.text("model_type", default=kind) if keys is not outside else kind
    if keys is not outside and kind:
        architecture(kind)
    fields, notes = decoder(keys, text_kind, outside)
    if architecture(text_kind).get("encoder") == "yes":
        encoder(keys, fields)
    notes += images(outside, keys, fields)
    format = checkpoint_format(outside, keys, Keys(beside) if beside is not None else None)
    if format.quantised != "all":
        fields["quantised"] = (format.quantised, format.key)
    notes += [*format.notes, *_strange(keys), *(_strange(outside) if keys is not outside else [])]
    return _workload(fields, id, text_kind, file, format.precision, notes)


def _strange(keys: Keys) -> list[str]:
    """A sentence for each key that looks as if it changed the counts and that nothing read."""
    names = [
        name
        for name, value in keys.unread()
        if not isinstance(value, str)
        and value not in (None, False, 0, [], {})
        and _COUNTS.search(name)
        and not _HARMLESS.search(name.rsplit(".", 1)[-1])
    ]
    return [f"Key '{name}' is not understood and left out." for name in names[:12]]


def _workload(fields: Fields, id: str, kind: str, file: str, precision: str, notes: list[str]) -> Workload:
    params = {name: value for name, (value, _) in fields.items()}
    try:
        graph = build_graph(FAMILIES[_FAMILY], params)
    except WorkloadError as error:
        sentence = str(error)  # with the configuration's key in place of a family's parameter
        for name, (_, key) in fields.items():
            sentence = sentence.replace(f"parameter {name!r}", f"key {key!r}")
        raise WorkloadError(sentence) from None
    size, items = graph.parameters, fields.items()
    amount = f"{size / 1e9:.4g} B" if size >= 1e9 else f"{size / 1e6:.4g} M"
    try:
        return Workload(
            schema_version=1,
            id=id,
            name=id,
            family=_FAMILY,
            precision=precision,
            summary=f"Read from {file}: architecture {kind}, {amount} parameters.",
            sources={"config": Source(title=file, note="a configuration of the user's own")},
            params={name: Number(value=value, source="config", where=key[:200]) for name, (value, key) in items},
            request=Request(inputs=512, outputs=128),
            notes=tuple(note[:1200] for note in notes),
        )
    except ValidationError as error:
        if error.errors()[0]["loc"][:1] in (("id",), ("name",)):
            raise WorkloadError(f"id is {id[:60]!r}: at most 63 lower-case letters, digits, dots and hyphens") from None
        raise WorkloadError(one_sentence(error, Workload)) from None


def to_yaml(workload: Workload) -> str:
    """The YAML of a workload, as a file of the zoo has it."""
    data: dict[str, Any] = workload.model_dump(mode="json", exclude_defaults=True)
    notes = {"notes": data.pop("notes")} if "notes" in data else {}
    layout: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 118}
    text = yaml.safe_dump(data, **layout, default_flow_style=None)
    return text + (yaml.safe_dump(notes, **layout) if notes else "")
