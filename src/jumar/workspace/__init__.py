"""The workspace: snapshots of a folder of files, and putting files back."""
