"""What do you want to run?"""
