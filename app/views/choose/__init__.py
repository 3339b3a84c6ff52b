"""What should I use?"""
