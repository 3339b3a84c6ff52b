"""This machine as a device: probed, measured, calibrated."""
