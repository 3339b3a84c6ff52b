"""What stands around the pages: who is answered, what is done beside them, and who starts the server again."""
