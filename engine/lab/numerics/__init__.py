"""What a number format costs an answer: errors, searches of mixed formats, and networks trained here to find out."""
