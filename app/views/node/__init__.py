"""What moves over which wire, and what does each switch buy?"""
