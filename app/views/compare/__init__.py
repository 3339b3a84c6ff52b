"""Which of these should I choose, and where does the gain come from?"""
