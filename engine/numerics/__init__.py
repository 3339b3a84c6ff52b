"""Number formats, what they cost an answer, and networks trained here to find out."""
