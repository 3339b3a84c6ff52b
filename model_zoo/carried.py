"""A network small enough to travel in a scenario's id: whoever opens the link has it, and no server keeps anything.

The id is ``net.`` and base32 of deflated JSON: name, family, format, request and parameters. It is a workload's id
wherever one is allowed.
"""

import base64
import json
import zlib
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from entries.files import read_plain
from entries.schema import one_sentence
from model_zoo.families import FAMILIES, build_graph
from model_zoo.schema import CARRIED, LONGEST_CARRIED, Number, Request, Workload, WorkloadError

_MAX_BYTES = 16_384  # bytes that an id unpacks to
_DICTIONARY = json.dumps(read_plain(Path(__file__).with_suffix(".yaml")))
"""What a network's text begins with when it is deflated."""
_FAMILY = "transformer-decoder"
_NOTE = "carried in the link"


def in_link(workload: Workload) -> str:
    """The id that carries a workload; WorkloadError where it is too large for an address."""
    if workload.family != _FAMILY:
        raise WorkloadError(f"{workload.id} is of family {workload.family!r}; a link carries a {_FAMILY}")
    params = {key: number.value for key, number in workload.params.items()}
    size = workload.request
    data = [workload.name, workload.family, workload.precision, [size.batch, size.inputs, size.outputs], params]
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=_DICTIONARY.encode())
    body = packer.compress(json.dumps(data, separators=(",", ":")).encode()) + packer.flush()
    result = CARRIED + base64.b32encode(body).decode().rstrip("=").lower()
    if len(result) > LONGEST_CARRIED:
        raise WorkloadError(
            f"{workload.id} takes {len(result):,} characters; at most {LONGEST_CARRIED:,} fit in a link: import it "
            "into your folder instead"
        )
    return result


@lru_cache(maxsize=256)
def unpack(id: str) -> Workload:
    """The workload that an id carries, its graph built once; WorkloadError in one sentence otherwise."""
    error = WorkloadError(f"workload {id[:40]!r}... is damaged: it does not carry a network")
    try:
        payload = id.removeprefix(CARRIED).upper()
        unpacker = zlib.decompressobj(-15, zdict=_DICTIONARY.encode())
        text = unpacker.decompress(base64.b32decode(payload + "=" * (-len(payload) % 8)), _MAX_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise error
        name, family, precision, (batch, inputs, outputs), params = json.loads(text)
        if family != _FAMILY:  # others build as large a graph as a few bytes ask for
            raise WorkloadError(f"a network in a link is of family {str(family)[:40]!r}; {_FAMILY} is allowed")
        workload = Workload(
            schema_version=1,
            id=id,
            name=name,
            family=family,
            precision=precision,
            summary=f"{name}: a network that its link carries.",
            sources={},
            params={key: Number(value=value, basis="assumed", note=_NOTE) for key, value in params.items()},
            request=Request(batch=batch, inputs=inputs, outputs=outputs),
        )
    except WorkloadError:
        raise
    except ValidationError as mistake:
        raise WorkloadError(f"a network in a link: {one_sentence(mistake, Workload)}") from None
    except Exception:  # an address was written by anybody
        raise error from None
    build_graph(FAMILIES[workload.family], {key: number.value for key, number in workload.params.items()})
    return workload
