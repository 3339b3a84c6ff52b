"""The report as one HTML file: whole, by itself, and nothing in it is taken for markup."""

import re

import pytest

from app.views.explore.report_file import report_html
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS

NOT_WORDS = re.compile(r"\bNone\b|\bnan\b|\d[eE][+-]?\d")


@pytest.mark.parametrize("id", ["dfx-1.5b", "brainwave-gru", "wide-deep-int8", "tonic-fc", "node-dlrm"])
def test_a_report_stands_by_itself(id):
    report = evaluate(PRESETS[id].scenario)
    text = report_html(report, False)
    body = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?https?:""", body)
    assert report.token in body
    assert body.count("<section>") >= 4
    words = re.sub(r"<code>.*?</code>|<[^>]+>", " ", body)
    assert not NOT_WORDS.search(words)
    for op in report.ops[:3]:
        assert op.name in body
