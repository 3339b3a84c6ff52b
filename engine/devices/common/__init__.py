"""What device families share: the contract, counts, footprints, and numbers that are columns."""
