"""How fast does this run on the host here, and did we predict it?"""
