"""Which designs are best under my limits?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
