"""Real operators, generated code, this machine as a device, and networks trained here: nothing is priced by it."""
