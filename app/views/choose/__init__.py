"""What should I use?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
