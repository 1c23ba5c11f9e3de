"""What is told of a daemon to somebody who has to find out what is wrong with it. Nothing here changes anything."""
