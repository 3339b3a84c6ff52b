"""Where does each number come from?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
