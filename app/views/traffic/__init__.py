"""What load can it carry inside the SLA?"""
