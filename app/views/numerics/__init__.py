"""How few bits still meet my metric?"""
