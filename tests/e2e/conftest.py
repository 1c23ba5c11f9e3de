"""Tests of real processes: daemons, commands and sockets, one repository for each test."""

from support.fixtures import daemon as daemon
from support.fixtures import shared as shared
from support.fixtures import wire as wire
from support.fixtures import world as world
