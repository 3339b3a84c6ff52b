"""How fast is this system on this model, and what limits it?"""
