"""Real desktops: Xvfb, a window manager and real applications in a sandbox of their own, one a slot."""
