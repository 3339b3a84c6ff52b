"""Texts of a language model's load; the page puts values where braces are."""

# controls.py
OPEN = "Requests per second"
CLIENTS_HELP = "Requests in flight: each client sends its next one a think time after the answer to its last."
THINK_HELP = "Mean time between an answer and the client's next request; exponential."
RAMP_HELP = "The clients' first requests come one after another over this time; 0: all at once."
RATE_HELP = "Requests per second offered to one node; a request is one sequence."
POLICY_HELP = (
    "vLLM mixes chunks of prompts with decoding and preempts where the KV cache is full; SGLang runs passes of prefill "
    "first; TensorRT-LLM takes whole prompts and admits what can run to its end."
)
BUDGET_HELP = "Tokens a pass prefills and decodes together."
CHUNK_HELP = "On: a prompt may enter in pieces. Off: only where the token budget takes the whole of it."
MAX_SEQS_HELP = "Sequences in the engine at once."
BLOCKS_HELP = "Blocks of the KV cache; empty: as many as fit beside the weights."
PREFIX_HELP = "Share of every prompt whose keys and values are in the KV cache already."
ASYNC_HELP = "The next pass is formed while one runs; it sees arrivals and ends one pass later."
LIMIT_HELP = "Goodput counts the requests that meet all limits."
USERS = "Users at the peak"

# page.py
SECONDS_HELP = "Arrival to first token, over all requests."
OUTPUT_HELP = "Output tokens per second: of all, of each device, and of each user (1 / median TPOT)."
GAP_HELP = "Inter-token latency: between two tokens of one sequence."
GOODPUT_HELP = "Requests per second that meet every limit."
KV_HELP = "Most blocks of the KV cache in use at once, of all its blocks."
ALONG = "TTFT and inter-token latency along the load"
LATENCIES_CAPTION = "First wave: the first request of every client; they all reach an empty engine."
PLAN_CAPTION = "Users, headroom, failures and prices are set under Demand and site, in the sidebar."
SIMULATED = (
    "Simulated, {requests} requests at this load; times of passes are estimates, {band}. Grey: TTFT p99's 99% interval."
)

# charts.py

# tables.py
MOST = "**At most {level} inside {limits}**: {rate}, {tokens} of output; there, {share} of the time goes to {binds}."
NONE = "**No load keeps {limits}**: {said}."
NO_LIMITS = "no limits"
HERE_INSIDE = "At {level}, all limits are met."
HERE_OUTSIDE = "At {level}, **{missed}**."
ABOVE = "{figure} is {seconds}, {times} the limit"
