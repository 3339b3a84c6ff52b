"""What should I use? Every system tried under the limits of a question, ranked by money, with why the others lose.

>>> from engine.choose import choose
>>> answer = choose({"workload": "llama3.1-70b", "inputs": 1024, "outputs": 1024, "tpot_s": 0.025})
>>> answer.sentence, answer.rows[0].configuration, answer.question.token
"""

from engine.choose.answer import Answer, choose
from engine.choose.candidates import Row
from engine.choose.question import LOAD, READABLE, Price, Question, WhatIf, question_of, read_fields
from engine.choose.serving import Refusal, Served
