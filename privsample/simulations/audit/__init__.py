"""Monte-Carlo audits: whether draws refute what is claimed."""
