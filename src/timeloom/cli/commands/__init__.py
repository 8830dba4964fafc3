"""The commands of `timeloom`: one module or folder per command, loaded when the command is used."""
