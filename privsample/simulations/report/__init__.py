"""Pages and figures for people."""
