"""A network of the reader's own: a model configuration travels in the link, an ONNX file into this machine's folder."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import streamlit as st

from app.shared import formats as fmt
from app.shared import link, parts
from app.views.catalog import texts
from engine.resolve.choices import default_scenario, why_not
from engine.scenario.files import beside
from engine.scenario.formats import activation_bytes
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.carried import in_link
from model_zoo.catalog import default_zoo, own_folder
from model_zoo.importers.huggingface import MAX_BYTES, config_of, id_from, read_config
from model_zoo.importers.onnx.file import MAX_BYTES as MAX_ONNX
from model_zoo.importers.onnx.process import ImportProcess
from model_zoo.schema import Workload, WorkloadError

_LOCAL = ("localhost", "127.0.0.1", "::1")
_LARGEST = 64  # MiB of a file given to this machine's own server


def _local() -> bool:
    """Whether only this machine reaches the server."""
    return st.get_option("server.address") in _LOCAL


def open_entry(systems: Iterable[str], workloads: Iterable[str]) -> None:
    """Open in Explore the first system with the first workload that go together."""
    pairs = ((system, load) for load in workloads for system in systems if why_not(system, load) is None)
    pair = next(pairs, None)
    if pair is None:
        return parts.refusal(texts.NO_SYSTEM)
    link.show("explore", default_scenario(*pair))


def systems() -> list[str]:
    """Every system, the session's first."""
    return [link.current().system, *default_catalog().ids("systems")]


def _configuration(files: list[Any]) -> Workload:
    """The network of a config.json, and of what says beside it how its weights are quantised."""
    configs = {}
    for file in files:
        if file.size > MAX_BYTES:
            raise WorkloadError(texts.CONFIGURATION_TOO_LONG.format(name=file.name, most=MAX_BYTES))
        try:
            configs[file.name] = config_of(file.getvalue())
        except InputError as error:
            raise WorkloadError(f"{file.name}: {error}") from None
    beside_it = next((data for data in configs.values() if "quantization" in data and "model_type" not in data), None)
    networks = [(name, data) for name, data in configs.items() if data is not beside_it]
    if len(networks) != 1:
        raise WorkloadError(texts.TOO_MANY_CONFIGURATIONS.format(count=len(networks)))
    name, data = networks[0]
    try:
        return read_config(data, id_from(str(data.get("_name_or_path") or Path(name).stem)), name, beside_it)
    except WorkloadError as error:
        raise WorkloadError(f"{name}: {error}") from None


def _store(file: Any) -> str:
    """The id of an ONNX file that now lies in the folder of this machine's networks; WorkloadError otherwise."""
    if not _local():
        raise WorkloadError(texts.KEEPS_NO_FILES.format(name=file.name))
    if file.size > MAX_ONNX:
        raise WorkloadError(texts.FILE_TOO_LONG.format(name=file.name, most=MAX_ONNX))
    id = id_from(Path(file.name).stem)
    zoo, target = default_zoo(), own_folder() / f"{id}.onnx"
    data = file.getvalue()
    if id in zoo.ids():
        if target.is_file() and target.read_bytes() == data:
            return id
        raise WorkloadError(texts.KNOWN_ALREADY.format(name=file.name, id=id))
    apart = ImportProcess()
    try:
        with TemporaryDirectory() as folder:  # what can't be read is not kept
            trial = Path(folder) / target.name
            trial.write_bytes(data)
            apart.read(trial)
        with beside(target, folder=True) as fresh:
            fresh.write_bytes(data)
    except InputError as error:
        raise WorkloadError(f"{file.name}: {error}") from None
    finally:
        apart.stop()
    default_zoo.cache_clear()
    return id


def own_network() -> None:
    """The upload, what was found in it, and the way to it."""
    with st.expander(texts.OWN, expanded="own" in st.query_params, icon=":material/upload_file:"):
        st.caption(texts.OWN_HARDWARE)
        files = st.file_uploader(
            texts.UPLOAD,
            type=["json", "onnx"],
            accept_multiple_files=True,
            key="own.files",
            max_upload_size=_LARGEST if _local() else 2,
            help=texts.UPLOAD_HELP,
        )
        if not files:
            return
        try:
            if graphs := [file for file in files if Path(file.name).suffix == ".onnx"]:
                id, notes = [_store(file) for file in graphs][-1], ()
            else:
                read = _configuration(files)
                id, notes = in_link(read), read.notes
            graph = default_zoo().graph(id)
        except WorkloadError as error:
            st.error(fmt.plain(str(error)), icon=":material/error:")
            return
        name = default_zoo().workload(id).name
        cache = graph.state_elements.per_token
        kv = texts.KV_CACHE.format(cache=fmt.si(activation_bytes("fp16") * cache, "B")) if cache else ""
        st.markdown(f"**{fmt.plain(name)}**: {fmt.parameters(graph.parameters)} parameters{kv}.")
        for note in notes:
            st.caption(fmt.plain(note))
        if st.button(texts.OPEN_EXPLORE, type="primary", key="open.own"):
            open_entry(systems(), [id])
