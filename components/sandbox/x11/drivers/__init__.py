"""Ways to start a sandbox with the guest agent in it."""
