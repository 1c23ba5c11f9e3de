"""Tests of daemons that follow each other."""

from support.fixtures import world as world
