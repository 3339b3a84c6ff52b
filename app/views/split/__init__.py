"""Where should this network be cut, and what may run beside the packets?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
