"""Which of these should I choose, and where does the gain come from?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
