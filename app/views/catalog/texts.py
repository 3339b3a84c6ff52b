"""The Catalog page's texts; the page puts values where braces are."""

# page.py
SEARCH_PLACEHOLDER = "name, id, vendor or source"
NOTHING_MATCHES = "Nothing matches. Clear the search in the sidebar."
NO_NUMBERS = "This entry has no numbers of its own; its parts have."
NETWORK = "**{parameters} parameters**, {work} per request of {asked}; {kinds} kinds of operator in {phase}."
TOO_MANY_OPERATORS = "{count} operators are too many to draw; the table lists what each reads from."
NO_SYSTEM = "No system of the catalog runs this workload"
YOUR_OWN = (
    "Your own network, read from `{name}` in the folder `workloads` of your catalog (`INFERSCAPE_CATALOG`, else "
    "`~/.inferscape/catalog`)."
)
CATALOG = (
    "**{devices} devices, {systems} systems and {workloads} workloads**, each number with its unit as printed, its "
    "source and the kind of evidence it is."
)
MORE_FILES = "And {count:,} more files that can't be used."

# upload.py
CONFIGURATION_TOO_LONG = "{name}: more than the {most} bytes a model configuration may have"
TOO_MANY_CONFIGURATIONS = (
    "{count} model configurations are given; a network has one configuration and at most one hf_quant_config.json"
)
KEEPS_NO_FILES = (
    "{name}: this server answers other machines too, and stores no uploads; put the file into the folder `workloads` "
    "of your own catalog"
)
FILE_TOO_LONG = "{name}: more than the {most} bytes that are read (keep weights outside the file)"
KNOWN_ALREADY = "{name}: the zoo has a workload {id!r} already; give the file another name"
OWN_NETWORK = "A network of your own"
UPLOAD = "A model's config.json (Hugging Face), or an ONNX file"
UPLOAD_HELP = (
    "A configuration travels in the link and is stored nowhere; a `hf_quant_config.json` may come with it. An ONNX "
    "file is stored in the folder of your own networks, and only by a server that no other machine reaches."
)
KV_CACHE = ", {cache} of KV cache per token (FP16)"
OPEN_EXPLORE = "Open it in Explore"
