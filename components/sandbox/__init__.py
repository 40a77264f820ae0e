"""Where actions happen: the desktops, the shell, and what keeps them inside their directory."""
