"""How a serving engine carries a language model's load."""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
