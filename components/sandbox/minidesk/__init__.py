"""minidesk: a small desktop drawn in process over real files in a real directory."""
