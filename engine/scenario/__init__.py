"""The choice a user makes: its fields, its token, what-ifs by path, number formats and how numbers are said."""

from engine.scenario.scenario import (
    TOKEN_LIMIT,
    VERSION,
    Costs,
    Limits,
    OpName,
    Scenario,
    ScenarioError,
    decode,
    encode,
    make,
    token_in,
)
from engine.scenario.token import NotThereError
