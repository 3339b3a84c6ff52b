"""Does docs/SCENARIO.md say what a scenario and its token are?"""

import json
import zlib
from base64 import urlsafe_b64decode

from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, encode
from tests.architecture.scenario import TARGET, written
from tests.each import each


def test_the_page_is_what_schema_and_table_say():
    assert TARGET.read_text() == written(), "out of date: python -m tests.architecture.scenario"


@each("id", PRESETS)
def test_a_token_is_read_as_the_page_describes(id):
    """By the standard library alone: version, encoding, checksum, sorted JSON of every field."""
    scenario = PRESETS[id].scenario
    token = encode(scenario)
    raw = urlsafe_b64decode(token[2:] + "=" * (-len(token[2:]) % 4))
    text = zlib.decompress(raw[4:], -15) if token[1] == "z" else raw[4:]
    assert zlib.crc32(text).to_bytes(4, "big") == raw[:4]
    data = json.loads(text)
    assert list(data) == sorted(data)
    dumped = scenario.model_dump(mode="json")
    assert data == {name: value for name, value in dumped.items() if value is not None}
    assert set(Scenario.model_fields) - set(data) == {name for name, value in dumped.items() if value is None}
