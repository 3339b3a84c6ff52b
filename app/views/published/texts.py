"""The Published page's texts; the page puts values where braces are."""

# page.py
NUMBER = "How a number is made: one throughput from its link to this page, line by line"
NO_CLAIM_MATCHES = "No claim matches these filters. Set them to All in the sidebar."
ROLE_HELP = "Calibration claims fitted a constant; validation claims were only predicted."
INDEPENDENT_MET_HELP = "Times, rates, powers and shares held out from calibration. Missed: {missed}."
NO_EVIDENCE = "no evidence of times"
NINE_TEN = "for nine in ten"
TYPICAL_ERROR_HELP = "Of the independent predictions with a number."
WITH_REASON = "each with its reason"
NULL_MODEL = "It must be closer than {name}: {predicted}."
SCATTER_ANSWER = (
    "{inside} of {count} numbers within tolerance; filled is validation, hollow calibration, grey read back or "
    "derived, a diamond missed, the shaded band ±10%"
)
ONE_CLAIM = "**One claim** :gray[· select a point or a row]"
TIMES = "Times, rates, powers and shares"
ELSE_COMPARED = "What else is compared, and is no evidence of times ({count})"
BANDS_ANSWER = (
    "{having} of {kinds} kinds of work have five independent sources or more; bands found without a measurement's "
    "source contain {inside} of {all} ({share})"
)
BANDS_CAPTION = (
    "By conformal prediction: 90% of measurements of a source that was never seen lie in the band. A source is one "
    "publication's measurements of one part. With fewer than five there is no evidence."
)

# measured.py
UPLOAD_HELP = (
    "One run per row: fields of a scenario (system, workload, batch, precision, inputs, outputs, ...) and measured "
    "figures with their unit (`latency_ms`, `throughput_per_s`, `ttft_s`, `tpot_ms`, `power_w`). Names as others write "
    "them are understood. The file is not stored."
)
UPLOAD_EXAMPLE = "For example: `system,workload,precision,batch,latency_ms` and one run per row."
TABLE_TOO_LONG = "the table has {size:,} bytes; at most {most:,} are allowed"
TOO_MANY_ROWS = (
    "the table has {count:,} rows; at most {most:,} are allowed here, any number with "
    "`python -m engine compare-measured`"
)
OTHER_REASONS = "others for other reasons."
BAND_HELD = "{inside} of {banded} figures lie in their error band"
NO_BANDS = "no row has an error band"
WITHOUT_EVIDENCE = "; {no_evidence} without an error band"
PREDICTED_ROWS = "**{done} of {rows} rows predicted**: half within {median}, nine in ten within {p90}; {band}"
MEASURED_ALT = "Predicted against measured {shown} of {count} runs: {said}."
MEASURED_CAPTION = "A diamond lies outside of its error band; a hollow point has no error band; shaded is ±10%."
GROUPS = "By system, kind of network, format and figure"
BAND_UNKNOWN = "no evidence for a band"
