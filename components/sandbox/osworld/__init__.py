"""OSWorld: its guest API over our slots, its task files, its evaluators, and a remote guest as a desktop of ours."""
