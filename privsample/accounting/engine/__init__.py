"""From privacy bounds to every view and every combination: what an account needs to say is all in its bounds."""
