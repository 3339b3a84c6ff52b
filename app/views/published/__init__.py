"""Can I trust these numbers?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
