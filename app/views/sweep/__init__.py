"""Which designs are best under my limits?"""
