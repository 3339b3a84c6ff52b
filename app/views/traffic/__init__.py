"""What load can it carry inside the SLA?"""

from app.shared.glossary import texts_of

texts = texts_of(__file__)
