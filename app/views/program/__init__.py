"""What does the machine do, instruction by instruction?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
