"""Speed and accuracy relative to a named peer or limit, measured in one run by `make bench`."""
