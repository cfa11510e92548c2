"""Simulations in three rooms: `report` (pages and figures), on it `audit`, and on both `demo`."""
