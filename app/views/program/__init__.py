"""What does the machine do, instruction by instruction?"""
