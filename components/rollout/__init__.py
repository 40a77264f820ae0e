"""Episodes: who acts, what is stored, how a desktop and a policy meet."""
