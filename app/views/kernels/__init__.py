"""How fast does this run on the host here, and did we predict it?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
