"""What do you want to run?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
