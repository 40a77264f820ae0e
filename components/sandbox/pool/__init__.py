"""Slots for many: a service that lends desktops for an episode each, and takes them back whatever happens."""
