"""A policy at work on a live desktop, in front of a person: what is asked first, shown, and kept."""
