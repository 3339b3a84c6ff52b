"""How fast is this system on this model, and what limits it?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
