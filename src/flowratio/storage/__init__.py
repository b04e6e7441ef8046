"""Files and folders: read, write, save, score, resume after a kill."""
