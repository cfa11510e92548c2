"""Speed and accuracy as ratios against a named peer or limit, measured in one run: `make bench`."""
