"""What is this machine made of?"""
