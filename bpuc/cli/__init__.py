"""The command line: click commands, one file each, imported only when they are used."""
