"""How few bits still meet my metric?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
