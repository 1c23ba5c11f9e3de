"""The daemon as a service of systemd or launchd: its files written, switched on and off, and looked at. Standard library only.

`platform` chooses between `systemd` and `launchd`, which know the files and the commands of one manager each; `installing`,
`removing` and `looking` are the same for both.
"""
