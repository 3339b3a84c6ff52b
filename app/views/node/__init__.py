"""What moves over which wire, and what does each switch buy?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
