"""Can I trust these numbers?"""
